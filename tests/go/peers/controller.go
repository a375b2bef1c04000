package main

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// controllerFigures runs a manager until a no-op reconciler has reconciled every pod once.
func controllerFigures(kubeconfig string) (map[string]float64, error) {
	start := time.Now()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return nil, err
	}
	var lock sync.Mutex
	seen, last := map[ctrl.Request]bool{}, start
	noop := reconcile.Func(func(_ context.Context, request ctrl.Request) (ctrl.Result, error) {
		lock.Lock()
		defer lock.Unlock()
		if !seen[request] {
			seen[request], last = true, time.Now()
		}
		return ctrl.Result{}, nil
	})
	if err := ctrl.NewControllerManagedBy(manager).For(&v1.Pod{}).Complete(noop); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() {
		// Two quiet seconds end the run; the figure is the time of the last new pod, so the wait does not count.
		for ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
			lock.Lock()
			quiet := len(seen) > 0 && time.Since(last) > 2*time.Second
			lock.Unlock()
			if quiet {
				cancel()
			}
		}
	}()
	if err := manager.Start(ctx); err != nil {
		return nil, err
	}
	return map[string]float64{
		"pods": float64(len(seen)), "seconds": last.Sub(start).Seconds(), "resident_bytes": residentBytes(),
	}, nil
}
