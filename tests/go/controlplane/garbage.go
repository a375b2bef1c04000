package main

import (
	"context"
	"time"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

// discoveryPeriod is how often the garbage collector looks for new kinds. kube-controller-manager does so every 30 s, and
// has no option for it; a test that deletes an owner of a new kind would wait as long.
const discoveryPeriod = 2 * time.Second

// startGarbageCollector starts the garbage collector of kube-controller-manager; it runs until the process ends.
func startGarbageCollector(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 40, 60
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, started := context.Background(), make(chan struct{})
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	shared := informerfactory.NewInformerFactory(
		informers.NewSharedInformerFactory(client, 0),
		metadatainformer.NewSharedInformerFactory(metadataClient, 0),
	)
	ignored := garbagecollector.DefaultIgnoredResources()
	collector, err := garbagecollector.NewGarbageCollector(ctx, client, metadataClient, mapper, ignored, shared, started)
	if err != nil {
		return err
	}
	shared.Start(ctx.Done())
	close(started)
	go collector.Run(ctx, 20, discoveryPeriod)
	go collector.Sync(ctx, client.Discovery(), discoveryPeriod)
	return nil
}
