package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bodies of sub-resources and options, which no client of their own has; and the schemas of CRDs.
var others = []reflect.Type{
	reflect.TypeFor[metav1.DeleteOptions](),
	reflect.TypeFor[corev1.Binding](),
	reflect.TypeFor[authenticationv1.TokenRequest](),
	reflect.TypeFor[autoscalingv1.Scale](),
	reflect.TypeFor[policyv1.Eviction](),
	schemaType,
}

// typesOf returns the types of the sandbox's kinds as JSON, a type in each line: its fields by their names in JSON as [type, flags].
//
// Types are scalars, names of other types, or one of the two behind `[]` or `{}`. Flags: `p` pointer, `w` always written, `z` left
// out when zero, `i` inlined, `m=KEY` merge key, `m` merged list of scalars, `r` keys are retained, `l=set`, `l=atomic`,
// `l=map:KEYS`, `a` atomic map or struct, `q` required, `e=VALUES` one of these texts, with `~` for a space. The member "" marks a
// struct that is atomic wherever it stands.
func typesOf(all []kind, source *sources) ([]byte, error) {
	waiting := slices.Clone(others)
	for _, one := range all {
		if source.isResource(one) && isStable(one) {
			waiting = append(waiting, one.object)
		}
	}
	lines := map[string]string{}
	// Objects inside of another one have their type as fields, which protobuf does not carry.
	inside := map[string]bool{}
	kept := map[reflect.Type][]entry{}
	for len(waiting) > 0 {
		message := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		if _, ok := kept[message]; ok {
			continue
		}
		entries, inner, err := entriesOf(message, source)
		if err != nil {
			return nil, err
		}
		kept[message] = entries
		for _, one := range inner {
			inside[typeName(one)] = true
		}
		waiting = append(waiting, inner...)
	}
	for message, entries := range kept {
		title := typeName(message)
		var members []string
		_, named := message.FieldByName("TypeMeta")
		if named && inside[title] {
			members = append(members, `"apiVersion":["string",""]`, `"kind":["string",""]`)
		}
		if source.has(name(message), "structType=atomic") {
			members = append(members, `"":"atomic"`)
		}
		for _, one := range entries {
			members = append(members, fmt.Sprintf("%s:[%s,%s]", quoted(one.name), quoted(one.kind), quoted(one.flags)))
		}
		lines[title] = fmt.Sprintf("%s: {%s}", quoted(title), strings.Join(members, ","))
	}
	var titles []string
	for title := range lines {
		titles = append(titles, title)
	}
	slices.Sort(titles)
	for at, title := range titles {
		titles[at] = lines[title]
	}
	return []byte("{\n" + strings.Join(titles, ",\n") + "\n}\n"), nil
}

// entry is a field as the sandbox reads it.
type entry struct{ name, kind, flags string }

// entriesOf returns the fields of a struct in the order of its source, and the structs in them.
func entriesOf(message reflect.Type, source *sources) ([]entry, []reflect.Type, error) {
	var entries []entry
	var inner []reflect.Type
	for at := range message.NumField() {
		member := message.Field(at)
		tag, ok := member.Tag.Lookup("protobuf")
		if !ok || member.Type == reflect.TypeFor[metav1.TypeMeta]() {
			continue
		}
		one, err := fieldOf(member.Type, tag)
		if err != nil {
			return nil, nil, fmt.Errorf("%s.%s: %w", name(message), member.Name, err)
		}
		if one.message != nil {
			inner = append(inner, one.message)
		}
		kind, scalar := kindOf(member.Type)
		flags := flagsOf(member, source.settings(name(message)+"."+member.Name), source.markers[name(message)+"."+member.Name])
		if enum := name(scalar); source.has(enum, "enum") {
			values := slices.Sorted(slices.Values(source.values[enum]))
			flags = append(flags, "e="+strings.ReplaceAll(strings.Join(values, ","), " ", "~"))
		}
		title, _, _ := strings.Cut(member.Tag.Get("json"), ",")
		if title == "" {
			title = cmp.Or(protobufName(tag), member.Name)
		}
		entries = append(entries, entry{title, kind, strings.Join(flags, " ")})
	}
	return entries, inner, nil
}

// flagsOf returns the flags of a field.
func flagsOf(member reflect.StructField, markers map[string]string, all []string) []string {
	var flags []string
	title, options, _ := strings.Cut(member.Tag.Get("json"), ",")
	has := func(option string) bool { return slices.Contains(strings.Split(options, ","), option) }
	inline := title == ""
	switch {
	case inline:
		flags = append(flags, "i")
	case member.Type.Kind() == reflect.Pointer:
		flags = append(flags, "p")
	case !has("omitempty"):
		flags = append(flags, "w")
	}
	strategy := member.Tag.Get("patchStrategy")
	if key := member.Tag.Get("patchMergeKey"); key != "" {
		flags = append(flags, "m="+key)
	} else if strings.Contains(strategy, "merge") {
		flags = append(flags, "m")
	}
	if strings.Contains(strategy, "retainKeys") {
		flags = append(flags, "r")
	}
	switch list := markers["listType"]; list {
	case "":
	case "map":
		var keys []string
		for _, marker := range all {
			if key, ok := strings.CutPrefix(marker, "listMapKey="); ok {
				keys = append(keys, key)
			}
		}
		flags = append(flags, "l=map:"+strings.Join(keys, ","))
	default:
		flags = append(flags, "l="+list)
	}
	if markers["mapType"] == "atomic" || markers["structType"] == "atomic" {
		flags = append(flags, "a")
	}
	_, required := markers["required"]
	_, optional := markers["optional"]
	if required || !(has("omitempty") || has("omitzero") || optional || inline) {
		flags = append(flags, "q")
	}
	if has("omitzero") {
		flags = append(flags, "z")
	}
	return flags
}

// kindOf returns the name of a field's type, and the type behind its pointers, lists and maps.
func kindOf(value reflect.Type) (string, reflect.Type) {
	if _, ok := special[value]; ok {
		return value.Name(), value
	}
	switch value.Kind() {
	case reflect.Pointer:
		return kindOf(value.Elem())
	case reflect.Slice:
		if value.Elem().Kind() == reflect.Uint8 {
			return "bytes", value
		}
		inner, of := kindOf(value.Elem())
		return "[]" + inner, of
	case reflect.Map:
		inner, of := kindOf(value.Elem())
		return "{}" + inner, of
	case reflect.Struct:
		return typeName(value), value
	default:
		return value.Kind().String(), value
	}
}

// typeName returns the name of a struct in the table: `core.Pod`, and `autoscaling/v2.MetricSpec` in another version than v1.
func typeName(message reflect.Type) string {
	parts := strings.Split(message.PkgPath(), "/")
	group, version := parts[len(parts)-2], parts[len(parts)-1]
	if version != "v1" {
		group += "/" + version
	}
	return group + "." + message.Name()
}

func protobufName(tag string) string {
	for part := range strings.SplitSeq(tag, ",") {
		if title, ok := strings.CutPrefix(part, "name="); ok {
			return title
		}
	}
	return ""
}

func quoted(text string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text)
	return strings.TrimSpace(out.String())
}
