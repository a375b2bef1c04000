package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// reconcileFigures runs a no-op controller of four workers over burstKeys requests, in seconds per request.
func reconcileFigures() (map[string]float64, error) {
	var failed error
	seconds := median(func() float64 {
		taken, err := reconciles()
		if err != nil {
			failed = err
		}
		return taken
	})
	return map[string]float64{"reconcile": seconds}, failed
}

func reconciles() (float64, error) {
	var seen atomic.Int64
	finished := make(chan struct{})
	all := sync.OnceFunc(func() { close(finished) })
	noop := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		if seen.Add(1) == burstKeys {
			all()
		}
		return reconcile.Result{}, nil
	})
	skip := true
	made, err := controller.NewUnmanaged("noop", controller.Options{
		Reconciler: noop, MaxConcurrentReconciles: 4, SkipNameValidation: &skip,
		LogConstructor: func(*reconcile.Request) logr.Logger { return logr.Discard() },
	})
	if err != nil {
		return 0, err
	}
	requests := make([]reconcile.Request, burstKeys)
	for i := range requests {
		requests[i].NamespacedName = types.NamespacedName{
			Namespace: fmt.Sprintf("namespace-%02d", i%20), Name: fmt.Sprintf("deployment-%06d", i),
		}
	}
	// The clock starts when the controller starts its source: adding and reconciling overlap, as in production.
	started := make(chan time.Time, 1)
	feed := func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go func() {
			started <- time.Now()
			for _, request := range requests {
				queue.Add(request)
			}
		}()
		return nil
	}
	if err := made.Watch(source.Func(feed)); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- made.Start(ctx) }()
	select {
	case <-finished:
		return time.Since(<-started).Seconds() / burstKeys, nil
	case err := <-stopped:
		return 0, err
	}
}
