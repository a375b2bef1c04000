package main

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func fifoFigures() map[string]float64 {
	return map[string]float64{"add_update_pop": median(addUpdatePop)}
}

// addUpdatePop adds and updates every object and pops all into a store; it returns seconds per key.
func addUpdatePop() float64 {
	pods := make([]*v1.Pod, burstKeys)
	for i := range pods {
		pods[i] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%06d", i), Namespace: fmt.Sprintf("namespace-%02d", i%20)}}
	}
	fifo := cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{KeyFunction: cache.MetaNamespaceKeyFunc})
	start := time.Now()
	for _, pod := range pods {
		_ = fifo.Add(pod)
		_ = fifo.Update(pod)
	}
	for range pods {
		_, _ = fifo.Pop(func(any, bool) error { return nil })
	}
	return time.Since(start).Seconds() / burstKeys
}
