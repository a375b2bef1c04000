package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimepkg "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// informerFigures lists the pods of a stub server and follows its events, with the keys going into a queue. With a CA
// file it asks for protobuf over TLS, as controllers do, unless the server is to send JSON.
func informerFigures(url, count string, tls ...string) (map[string]float64, error) {
	events, err := strconv.Atoi(count)
	if err != nil {
		return nil, err
	}
	config := &rest.Config{Host: url, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	if len(tls) > 0 {
		config.TLSClientConfig.CAFile = tls[0]
		if len(tls) == 1 {
			config.ContentType, config.AcceptContentTypes = runtimepkg.ContentTypeProtobuf, runtimepkg.ContentTypeProtobuf
		}
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	updated, first, done := 0, time.Time{}, make(chan struct{})
	before := residentBytes()
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(dropManagedFields))
	informer := factory.Core().V1().Pods().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { queue.Add(cache.MetaObjectToName(object.(*v1.Pod)).String()) },
		UpdateFunc: func(_, object any) {
			if updated == 0 {
				first = time.Now()
			}
			queue.Add(cache.MetaObjectToName(object.(*v1.Pod)).String())
			if updated++; updated == events {
				close(done)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	stop := make(chan struct{})
	defer close(stop)
	start := time.Now()
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	listed := time.Since(start).Seconds()
	pods := len(informer.GetStore().ListKeys())
	if events > 0 {
		<-done
	}
	followed := time.Since(first).Seconds()
	runtime.GC()
	return map[string]float64{
		"pods":              float64(pods),
		"list_seconds":      listed,
		"events_per_second": float64(events) / followed,
		"bytes_per_pod":     (residentBytes() - before) / float64(max(pods, 1)),
	}, nil
}

func dropManagedFields(object any) (any, error) {
	if pod, ok := object.(metav1.Object); ok {
		pod.SetManagedFields(nil)
	}
	return object, nil
}

// residentBytes reads the resident set of this process.
func residentBytes() float64 {
	text, _ := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(fields[1])
	return float64(pages * os.Getpagesize())
}
