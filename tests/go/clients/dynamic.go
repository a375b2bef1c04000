package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"
)

var (
	crds    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	configs = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// gadget is the CRD of the namespaced kind Gadget in a group named after the test's namespace.
func gadget(group string) *unstructured.Unstructured {
	integer := map[string]any{"type": "integer"}
	properties := map[string]any{
		"spec":   map[string]any{"type": "object", "properties": map[string]any{"size": integer}, "required": []any{"size"}},
		"status": map[string]any{"type": "object", "properties": map[string]any{"seen": integer}},
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "gadgets." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": "gadgets", "kind": "Gadget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": properties}},
			}},
		},
	}}
}

// define creates the kind Gadget and waits until discovery has it.
func (r *run) define(client dynamic.Interface) (schema.GroupVersionResource, error) {
	group := r.namespace + ".example.org"
	gadgets := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "gadgets"}
	if _, err := client.Resource(crds).Create(r.ctx, gadget(group), metav1.CreateOptions{}); err != nil {
		return gadgets, err
	}
	finder, err := discovery.NewDiscoveryClientForConfig(r.config)
	if err != nil {
		return gadgets, err
	}
	return gadgets, eventually(r.ctx, "Gadget is served", func() (bool, error) {
		groups, err := restmapper.GetAPIGroupResources(finder)
		if err != nil {
			return false, err
		}
		mapping, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(schema.GroupKind{Group: group, Kind: "Gadget"})
		return err == nil && mapping.Resource == gadgets, nil
	})
}

func dynamicAndMetadata(r *run) error {
	client, err := dynamic.NewForConfig(r.config)
	if err != nil {
		return err
	}
	resource, err := r.define(client)
	if err != nil {
		return err
	}
	gadgets := client.Resource(resource).Namespace(r.namespace)
	watcher, err := gadgets.Watch(r.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": "Gadget",
		"metadata": map[string]any{"name": "g", "finalizers": []any{"example.org/hold"}}, "spec": map[string]any{"size": int64(1)},
	}}
	bad := object.DeepCopy()
	bad.Object["spec"] = map[string]any{"size": "big"}
	_, err = gadgets.Create(r.ctx, bad, metav1.CreateOptions{})
	r.note("create one that its schema refuses", nil, err)
	made, err := gadgets.Create(r.ctx, object, metav1.CreateOptions{FieldManager: "dynamic"})
	r.note("create one", made, err)
	made.Object["status"] = map[string]any{"seen": int64(1)}
	made, err = gadgets.UpdateStatus(r.ctx, made, metav1.UpdateOptions{FieldManager: "dynamic"})
	r.note("update its status", made, err)
	made, err = gadgets.Patch(r.ctx, "g", types.MergePatchType, []byte(`{"spec":{"size":2}}`), metav1.PatchOptions{FieldManager: "dynamic"})
	r.note("patch it", made, err)
	_, err = gadgets.Patch(r.ctx, "g", types.StrategicMergePatchType, []byte(`{"spec":{"size":2}}`), metav1.PatchOptions{})
	r.note("patch it by strategic merge", nil, err)
	r.note("delete it", "no error", gadgets.Delete(r.ctx, "g", metav1.DeleteOptions{}))
	made, err = gadgets.Patch(r.ctx, "g", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: "dynamic"})
	r.note("let it go", made.GetGeneration(), err)
	_, err = gadgets.Get(r.ctx, "g", metav1.GetOptions{})
	r.note("get it", nil, err)
	r.note("watch them", events(watcher, 5), nil)
	list, err := client.Resource(resource).List(r.ctx, metav1.ListOptions{})
	r.note("list in all namespaces", list, err)
	return r.metadataOnly(client, resource)
}

func (r *run) metadataOnly(client dynamic.Interface, gadgets schema.GroupVersionResource) error {
	reader, err := metadata.NewForConfig(r.config)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "labels": map[string]any{"a": "b"}},
		"data": map[string]any{"k": "v"},
	}}
	_, err = client.Resource(configs).Namespace(r.namespace).Create(r.ctx, object, metav1.CreateOptions{FieldManager: "dynamic"})
	r.note("create a ConfigMap", "no error", err)
	one, err := reader.Resource(configs).Namespace(r.namespace).Get(r.ctx, "c", metav1.GetOptions{})
	r.note("get its metadata", one, err)
	list, err := reader.Resource(configs).Namespace(r.namespace).List(r.ctx, metav1.ListOptions{LabelSelector: "a=b"})
	r.note("list metadata", list, err)
	r.note("delete the CRD", "no error", client.Resource(crds).Delete(r.ctx, "gadgets."+gadgets.Group, metav1.DeleteOptions{}))
	return nil
}
