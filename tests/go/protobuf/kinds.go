package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// kind is a kind that has a protobuf form.
type kind struct {
	apiVersion, kind string
	object           reflect.Type
}

func (k kind) String() string { return k.apiVersion + "/" + k.kind }

// message is what generated types implement.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

var (
	messageType = reflect.TypeFor[message]()
	metaPackage = reflect.TypeFor[metav1.ObjectMeta]().PkgPath()
)

// newScheme returns the types of every built-in kind.
func newScheme() (*runtime.Scheme, error) {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme,
		admissionv1.AddToScheme,
		admissionv1beta1.AddToScheme,
		apidiscoveryv2.AddToScheme,
		apidiscoveryv2beta1.AddToScheme,
		apiextensionsv1.AddToScheme,
		apiregistrationv1.AddToScheme,
		imagepolicyv1alpha1.AddToScheme,
		metav1.AddMetaToScheme,
	} {
		if err := add(all); err != nil {
			return nil, fmt.Errorf("register types: %w", err)
		}
	}
	return all, nil
}

// kinds returns the kinds of a scheme, sorted. The options and events that each group registers again are taken once.
func kinds(all *runtime.Scheme) []kind {
	var sorted []kind
	for gvk, object := range all.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || !reflect.PointerTo(object).Implements(messageType) {
			continue
		}
		own := gvk.Group == "" || gvk.Group == metav1.GroupName
		if object.PkgPath() == metaPackage && !own {
			continue
		}
		sorted = append(sorted, kind{gvk.GroupVersion().String(), gvk.Kind, object})
	}
	slices.SortFunc(sorted, func(a, b kind) int {
		if order := strings.Compare(a.apiVersion, b.apiVersion); order != 0 {
			return order
		}
		return strings.Compare(a.kind, b.kind)
	})
	return sorted
}
