package main

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// control starts the control plane of KUBEBUILDER_ASSETS as any suite does, writes as its administrator, and reads as a
// user that envtest adds.
func control(r *run) (err error) {
	environment := &envtest.Environment{}
	config, err := environment.Start()
	if err != nil {
		return err
	}
	defer func() {
		if stopped := environment.Stop(); err == nil {
			err = stopped
		}
	}()
	maps := func(config *rest.Config) (*corev1.ConfigMap, error) {
		client := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
		created, err := client.Create(r.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "by-"}}, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		return client.Get(r.ctx, created.Name, metav1.GetOptions{})
	}
	admin, err := maps(config)
	if err != nil {
		return err
	}
	r.note("administrator", admin.Namespace, nil)
	for _, groups := range [][]string{{"system:masters"}, {"readers"}} {
		user, err := environment.AddUser(envtest.User{Name: "somebody", Groups: groups}, nil)
		if err != nil {
			return err
		}
		object, err := maps(user.Config())
		r.note(groups[0], object != nil, err)
	}
	return nil
}
