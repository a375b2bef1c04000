package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const finalizer = "example.org/manager"

// mirror keeps a ConfigMap per Deployment, records the generation in its status, and cleans up with a finalizer.
type mirror struct{ client client.Client }

func (m *mirror) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	deployment := &appsv1.Deployment{}
	if err := m.client.Get(ctx, request.NamespacedName, deployment); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !deployment.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(deployment, finalizer) {
			return reconcile.Result{}, m.client.Update(ctx, deployment)
		}
		return reconcile.Result{}, nil
	}
	if controllerutil.AddFinalizer(deployment, finalizer) {
		return reconcile.Result{}, m.client.Update(ctx, deployment)
	}
	copied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: request.Name, Namespace: request.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, m.client, copied, func() error {
		copied.Data = map[string]string{"image": deployment.Spec.Template.Spec.Containers[0].Image}
		return controllerutil.SetControllerReference(deployment, copied, m.client.Scheme())
	})
	if err != nil || deployment.Status.ObservedGeneration == deployment.Generation {
		return reconcile.Result{}, err
	}
	before := deployment.DeepCopy()
	deployment.Status.ObservedGeneration = deployment.Generation
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return reconcile.Result{}, m.client.Status().Patch(ctx, deployment, patch)
}

// start runs a manager until the caller calls the returned function, which waits for the manager's end.
func (r *run) start(name string) (client.Client, func() error, error) {
	period, skip := 200*time.Millisecond, true
	manager, err := ctrl.NewManager(r.config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"}, Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{r.namespace: {}}},
		LeaderElection: true, LeaderElectionID: "manager", LeaderElectionNamespace: r.namespace, LeaderElectionReleaseOnCancel: true,
		RetryPeriod: &period, Controller: config.Controller{SkipNameValidation: &skip},
	})
	if err != nil {
		return nil, nil, err
	}
	worker := &mirror{manager.GetClient()}
	if err := ctrl.NewControllerManagedBy(manager).Named(name).For(&appsv1.Deployment{}).Owns(&corev1.ConfigMap{}).Complete(worker); err != nil {
		return nil, nil, err
	}
	ctx, stop := context.WithCancel(r.ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	select {
	case <-manager.Elected():
	case err := <-ended:
		stop()
		return nil, nil, fmt.Errorf("the manager ended: %w", err)
	case <-r.ctx.Done():
		stop()
		return nil, nil, r.ctx.Err()
	}
	return manager.GetClient(), func() error { stop(); return <-ended }, nil
}

func manager(r *run) error {
	direct, err := client.New(r.config, client.Options{})
	if err != nil {
		return err
	}
	_, stop, err := r.start("first")
	if err != nil {
		return err
	}
	object := deployment("web", 0)
	object.Namespace = r.namespace
	r.note("create a Deployment", "no error", direct.Create(r.ctx, object))
	r.note("it is mirrored", "mirrored", r.mirrored(direct, "example.org/main:1"))
	first, err := r.lease(direct)
	r.note("the first manager holds the Lease", first != "", err)
	r.note("the first manager stops", "stopped", stop())
	empty, err := r.lease(direct)
	r.note("the Lease while nobody leads", empty, err)
	patch := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"example.org/main:2"}]}}}}`))
	r.note("change the Deployment meanwhile", "no error", direct.Patch(r.ctx, object, patch))
	_, stop, err = r.start("second")
	if err != nil {
		return err
	}
	second, err := r.lease(direct)
	r.note("another one holds the Lease", second != "" && second != first, err)
	r.note("what changed meanwhile is mirrored", "mirrored", r.mirrored(direct, "example.org/main:2"))
	r.note("delete the Deployment", "no error", direct.Delete(r.ctx, object))
	err = eventually(r.ctx, "the Deployment is gone", func() (bool, error) {
		err := direct.Get(r.ctx, client.ObjectKeyFromObject(object), object)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	r.note("it is gone", "gone", err)
	err = eventually(r.ctx, "the ConfigMap is collected", func() (bool, error) {
		err := direct.Get(r.ctx, client.ObjectKeyFromObject(object), &corev1.ConfigMap{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	r.note("its ConfigMap is collected", "gone", err)
	r.note("the second manager stops", "stopped", stop())
	return nil
}

// mirrored waits until the ConfigMap has the image and the Deployment's status its generation.
func (r *run) mirrored(direct client.Client, image string) error {
	key := types.NamespacedName{Namespace: r.namespace, Name: "web"}
	return eventually(r.ctx, "the Deployment is mirrored", func() (bool, error) {
		found, copied := &appsv1.Deployment{}, &corev1.ConfigMap{}
		if err := direct.Get(r.ctx, key, found); err != nil {
			return false, err
		}
		if err := direct.Get(r.ctx, key, copied); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return copied.Data["image"] == image && found.Status.ObservedGeneration == found.Generation, nil
	})
}

func (r *run) lease(direct client.Client) (string, error) {
	lease := &coordinationv1.Lease{}
	err := direct.Get(r.ctx, types.NamespacedName{Namespace: r.namespace, Name: "manager"}, lease)
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", err
	}
	return *lease.Spec.HolderIdentity, nil
}
