package main

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var stable = regexp.MustCompile(`^v\d+$`)

// isStable returns whether the version of a kind is no alpha or beta.
func isStable(one kind) bool {
	return stable.MatchString(one.apiVersion[strings.LastIndex(one.apiVersion, "/")+1:])
}

// isResource returns whether clients have methods for a kind.
func (s *sources) isResource(one kind) bool {
	return s.has(name(one.object), "genclient") && !s.has(name(one.object), "genclient:noVerbs")
}

// Kinds that only the newest servers have: clients ask for them.
var newest = []string{"resource.k8s.io/", "admissionregistration.k8s.io/v1/Mutating"}

// resource returns the plural of a kind that every supported API server has, behind a slash if it has no namespaces; "" for others.
func (s *sources) resource(one kind) string {
	recent := func(prefix string) bool {
		return strings.HasPrefix(one.String(), prefix) && !strings.HasSuffix(one.kind, "Configuration")
	}
	if !s.isResource(one) || !isStable(one) || slices.ContainsFunc(newest, recent) {
		return ""
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(one.apiVersion, one.kind))
	if s.has(name(one.object), "genclient:nonNamespaced") {
		return "/" + plural.Resource
	}
	return plural.Resource
}
