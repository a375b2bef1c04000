package main

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// election runs one candidate that leads and releases the Lease, and a second one that takes over.
func election(r *run) error {
	client, err := kubernetes.NewForConfig(asProtobuf(r.config))
	if err != nil {
		return err
	}
	first, second := make(chan string, 4), make(chan string, 4)
	ctx, giveUp := context.WithCancel(r.ctx)
	defer giveUp()
	ended := make(chan struct{})
	go func() { defer close(ended); r.candidate(ctx, client, "first", first) }()
	r.note("the first candidate", received(r.ctx, first), nil)
	lease, err := client.CoordinationV1().Leases(r.namespace).Get(r.ctx, "election", metav1.GetOptions{})
	r.note("the Lease while it leads", lease, err)
	ctx, stop := context.WithCancel(r.ctx)
	defer stop()
	go r.candidate(ctx, client, "second", second)
	err = eventually(r.ctx, "the Lease is renewed", func() (bool, error) {
		found, err := client.CoordinationV1().Leases(r.namespace).Get(r.ctx, "election", metav1.GetOptions{})
		return err == nil && found.ResourceVersion != lease.ResourceVersion && *found.Spec.HolderIdentity == "first", err
	})
	r.note("the first renews", "renewed", err)
	r.note("the second does not lead", len(second), nil)
	giveUp()
	<-ended
	r.note("the first has given up", received(r.ctx, first), nil)
	r.note("the second candidate", received(r.ctx, second), nil)
	lease, err = client.CoordinationV1().Leases(r.namespace).Get(r.ctx, "election", metav1.GetOptions{})
	r.note("the Lease while the second leads", *lease.Spec.HolderIdentity, err)
	return nil
}

func (r *run) candidate(ctx context.Context, client kubernetes.Interface, name string, said chan<- string) {
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Name: "election", Namespace: r.namespace}, Client: client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: name},
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, ReleaseOnCancel: true, LeaseDuration: 10 * time.Second, RenewDeadline: 5 * time.Second, RetryPeriod: 200 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { said <- name + " leads" },
			OnStoppedLeading: func() { said <- name + " leads no more" },
		},
	})
}

func received(ctx context.Context, said <-chan string) string {
	select {
	case word := <-said:
		return word
	case <-ctx.Done():
		return "nothing came"
	}
}
