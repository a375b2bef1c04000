package main

import (
	"slices"

	apps "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func desired(namespace string, containers ...*corev1.ContainerApplyConfiguration) *appsv1.DeploymentApplyConfiguration {
	labels := map[string]string{"app": "web"}
	return appsv1.Deployment("web", namespace).WithSpec(appsv1.DeploymentSpec().WithPaused(true).
		WithSelector(applymetav1.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(corev1.PodTemplateSpec().WithLabels(labels).WithSpec(corev1.PodSpec().WithContainers(containers...))))
}

// withoutController removes the fields that the controller writes at some time.
func withoutController(deployment *apps.Deployment) *apps.Deployment {
	if deployment == nil {
		return nil
	}
	deployment = deployment.DeepCopy()
	deployment.Status = apps.DeploymentStatus{}
	deployment.ManagedFields = slices.DeleteFunc(deployment.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Subresource == "status"
	})
	return deployment
}

func apply(r *run) error {
	client, err := kubernetes.NewForConfig(asProtobuf(r.config))
	if err != nil {
		return err
	}
	deployments := client.AppsV1().Deployments(r.namespace)
	first, second := metav1.ApplyOptions{FieldManager: "first"}, metav1.ApplyOptions{FieldManager: "second"}
	main := corev1.Container().WithName("main").WithImage("example.org/main:1").
		WithPorts(corev1.ContainerPort().WithContainerPort(80), corev1.ContainerPort().WithContainerPort(81))
	made, err := deployments.Apply(r.ctx, desired(r.namespace, main), first)
	r.note("apply what is not there", withoutController(made), err)
	// Versions are comparable only after the controller's writes.
	err = eventually(r.ctx, "the controller has seen the Deployment", func() (bool, error) {
		made, err = deployments.Get(r.ctx, "web", metav1.GetOptions{})
		return err == nil && made.Status.ObservedGeneration == made.Generation, err
	})
	if err != nil {
		return err
	}
	again, err := deployments.Apply(r.ctx, desired(r.namespace, main), first)
	r.note("apply it again: the version stays", again.ResourceVersion == made.ResourceVersion, err)
	other := corev1.Container().WithName("main").WithImage("example.org/main:2")
	_, err = deployments.Apply(r.ctx, desired(r.namespace, other), second)
	r.note("apply another image as another manager", nil, err)
	forced := second
	forced.Force = true
	made, err = deployments.Apply(r.ctx, desired(r.namespace, other), forced)
	r.note("force it", withoutController(made), err)
	fewer := corev1.Container().WithName("main").WithPorts(corev1.ContainerPort().WithContainerPort(80))
	made, err = deployments.Apply(r.ctx, desired(r.namespace, fewer), first)
	r.note("give a port and the image up", withoutController(made), err)
	mine, err := appsv1.ExtractDeployment(made, "second")
	r.note("extract what the second manager owns", mine, err)
	status := appsv1.Deployment("web", r.namespace).WithStatus(appsv1.DeploymentStatus().WithReplicas(1))
	_, err = deployments.ApplyStatus(r.ctx, status, first)
	r.note("apply the status", "no error", err)
	_, err = deployments.Apply(r.ctx, appsv1.Deployment("web", r.namespace), metav1.ApplyOptions{})
	r.note("apply without a manager", nil, err)
	_, err = client.CoreV1().ConfigMaps("none-such").Apply(r.ctx, corev1.ConfigMap("c", "none-such"), first)
	r.note("apply into a namespace that is not there", nil, err)
	return nil
}
