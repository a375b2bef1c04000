package main

import (
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

// asProtobuf requests and sends protobuf, as the core components do.
func asProtobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Paused:   true,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.org/main:1"}}},
			},
		},
	}
}

func typed(r *run) error {
	client, err := kubernetes.NewForConfig(asProtobuf(r.config))
	if err != nil {
		return err
	}
	r.deployments(client)
	r.coreObjects(client)
	prefix := networkingv1.PathTypePrefix
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: networkingv1.IngressSpec{
		Rules: []networkingv1.IngressRule{{Host: "a.example.org", IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: "/", PathType: &prefix, Backend: networkingv1.IngressBackend{
					Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}},
			}}}}}}}}
	made, err := client.NetworkingV1().Ingresses(r.namespace).Create(r.ctx, ingress, metav1.CreateOptions{})
	r.note("create an Ingress", made, err)
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: r.namespace, Verb: "list", Resource: "pods"}}}
	answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(r.ctx, review, metav1.CreateOptions{})
	r.note("ask whether pods may be listed", answer.Status.Allowed, err)
	return nil
}

// settled removes the fields that the controller writes at some time.
func settled(deployment *appsv1.Deployment) *appsv1.Deployment {
	if deployment == nil {
		return nil
	}
	deployment = deployment.DeepCopy()
	deployment.Status, deployment.ManagedFields = appsv1.DeploymentStatus{}, nil
	delete(deployment.Annotations, "deployment.kubernetes.io/revision")
	return deployment
}

func (r *run) deployments(client kubernetes.Interface) {
	deployments := client.AppsV1().Deployments(r.namespace)
	made, err := deployments.Create(r.ctx, deployment("web", 2), metav1.CreateOptions{FieldManager: "typed"})
	r.note("create a Deployment", settled(made), err)
	_, err = deployments.Create(r.ctx, deployment("web", 2), metav1.CreateOptions{})
	r.note("create it again", nil, err)
	_, err = deployments.Create(r.ctx, deployment("Not A Name", 2), metav1.CreateOptions{})
	r.note("create one with a bad name", nil, err)
	dry, err := deployments.Create(r.ctx, deployment("dry", 1), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	r.note("create without storing", settled(dry), err)
	stale := made.DeepCopy()
	// The controller writes the status at some time, so the successful attempt differs between runs.
	var updated *appsv1.Deployment
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		found, err := deployments.Get(r.ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		found.Spec.Template.Spec.Containers[0].Image = "example.org/main:2"
		updated, err = deployments.Update(r.ctx, found, metav1.UpdateOptions{FieldManager: "typed"})
		return err
	})
	r.note("update its image, again on conflict", settled(updated), err)
	stale.Spec.Paused = false
	_, err = deployments.Update(r.ctx, stale, metav1.UpdateOptions{})
	r.note("update from an old version", nil, err)
	patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"example.org/side:1"}]}}}}`)
	patched, err := deployments.Patch(r.ctx, "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "typed"})
	r.note("add a container by strategic merge", settled(patched), err)
	patched, err = deployments.Patch(r.ctx, "web", types.JSONPatchType, []byte(`[{"op":"test","path":"/spec/replicas","value":9}]`), metav1.PatchOptions{})
	r.note("fail a JSON patch's test", patched, err)
	scale, err := deployments.GetScale(r.ctx, "web", metav1.GetOptions{})
	r.note("get its scale", scale, err)
	scale.Spec.Replicas, scale.ResourceVersion = 3, ""
	scale, err = deployments.UpdateScale(r.ctx, "web", scale, metav1.UpdateOptions{})
	r.note("update its scale", scale, err)
	list, err := deployments.List(r.ctx, metav1.ListOptions{LabelSelector: "app in (web)", FieldSelector: "metadata.name=web"})
	for i := range list.Items {
		list.Items[i] = *settled(&list.Items[i])
	}
	r.note("list by selectors", list, err)
	_, err = deployments.List(r.ctx, metav1.ListOptions{FieldSelector: "spec.paused=true"})
	r.note("list by a field that is none", nil, err)
	foreground, zero := metav1.DeletePropagationForeground, int64(0)
	r.note("delete it with a wrong uid", nil, deployments.Delete(r.ctx, "web", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("none")}))
	r.note("delete it", "no error", deployments.Delete(r.ctx, "web", metav1.DeleteOptions{PropagationPolicy: &foreground, GracePeriodSeconds: &zero}))
	err = eventually(r.ctx, "the Deployment is gone", func() (bool, error) {
		_, err := deployments.Get(r.ctx, "web", metav1.GetOptions{})
		return err != nil, nil
	})
	r.note("wait until it is gone", "gone", err)
	_, err = deployments.Get(r.ctx, "web", metav1.GetOptions{})
	r.note("get what is gone", nil, err)
}

func (r *run) coreObjects(client kubernetes.Interface) {
	core := client.CoreV1()
	watcher, err := core.ConfigMaps(r.namespace).Watch(r.ctx, metav1.ListOptions{LabelSelector: "watched=yes"})
	if err != nil {
		r.note("watch ConfigMaps", nil, err)
		return
	}
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "made-", Labels: map[string]string{"watched": "yes"}},
		Data:       map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {0, 1, 255}},
	}
	made, err := core.ConfigMaps(r.namespace).Create(r.ctx, object, metav1.CreateOptions{})
	r.note("create a ConfigMap with a generated name", len(made.Name) == len("made-")+5, err)
	made.Data["a"] = "2"
	made, err = core.ConfigMaps(r.namespace).Update(r.ctx, made, metav1.UpdateOptions{})
	r.note("update it", made.Data, err)
	delete(made.Labels, "watched")
	_, err = core.ConfigMaps(r.namespace).Update(r.ctx, made, metav1.UpdateOptions{})
	r.note("take its label away", "no error", err)
	var kinds []any
	for _, event := range events(watcher, 3) {
		if item, ok := event.(map[string]any); ok {
			data := item["object"].(*corev1.ConfigMap).Data
			kinds = append(kinds, map[string]any{"type": item["type"], "data": data})
		} else {
			kinds = append(kinds, event)
		}
	}
	r.note("watch the label", kinds, nil)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"k": "v"}}
	stored, err := core.Secrets(r.namespace).Create(r.ctx, secret, metav1.CreateOptions{})
	r.note("create a Secret", stored, err)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}}}
	served, err := core.Services(r.namespace).Create(r.ctx, service, metav1.CreateOptions{})
	r.note("create a Service", served, err)
	served.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	_, err = core.Services(r.namespace).UpdateStatus(r.ctx, served, metav1.UpdateOptions{})
	r.note("give it an address that its type forbids", nil, err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		SchedulerName: "nobody", Containers: []corev1.Container{{Name: "c", Image: "example.org/c"}}}}
	placed, err := core.Pods(r.namespace).Create(r.ctx, pod, metav1.CreateOptions{})
	r.note("create a Pod", placed, err)
	placed.Status.Conditions = append(placed.Status.Conditions, corev1.PodCondition{Type: "example.org/gate", Status: corev1.ConditionTrue})
	placed, err = core.Pods(r.namespace).UpdateStatus(r.ctx, placed, metav1.UpdateOptions{})
	r.note("set a condition of it", placed, err)
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "no-node"}}
	r.note("bind it", "no error", core.Pods(r.namespace).Bind(r.ctx, binding, metav1.CreateOptions{}))
	r.note("bind it twice", nil, core.Pods(r.namespace).Bind(r.ctx, binding, metav1.CreateOptions{}))
	r.note("delete all ConfigMaps", "no error", core.ConfigMaps(r.namespace).DeleteCollection(r.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	// A controller publishes kube-root-ca.crt again at some time.
	others := metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"}
	left, err := core.ConfigMaps(r.namespace).List(r.ctx, others)
	r.note("list the others", len(left.Items), err)
}
