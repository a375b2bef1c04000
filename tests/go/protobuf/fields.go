package main

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// form is how one value stands on the wire and in JSON. The numbers are those of rust/core/src/proto/table.rs.
type form byte

const (
	formString form = iota
	formBytes
	formBool
	formInt32
	formInt64
	formUint32
	formUint64
	formFloat32
	formFloat64
	formMessage
	// The members of the message are members of the object that has the field.
	formInline
	// The message has one repeated field, and is a list in JSON.
	formItems
	formTime
	formMicroTime
	formDuration
	formQuantity
	formIntOrString
	// The message has one field with JSON text.
	formRaw
	formSchemaOrArray
	formSchemaOrBool
	formSchemaOrStrings
	// The field is not in JSON.
	formHidden
)

const (
	flagRepeated byte = 1 << iota
	flagMap
	flagPointer
	flagOmitEmpty
	flagOmitZero
	// The server writes apiVersion and kind of the objects in the field, which protobuf has no place for.
	flagClaim
	// JSON has nothing for the field if it is not there.
	flagLeftOut
)

// field is a field of a message.
type field struct {
	number  int
	name    string
	form    form
	flags   byte
	message reflect.Type // of formMessage and formInline
}

var special = map[reflect.Type]form{
	reflect.TypeFor[metav1.Time]():                                  formTime,
	reflect.TypeFor[metav1.MicroTime]():                             formMicroTime,
	reflect.TypeFor[metav1.Duration]():                              formDuration,
	reflect.TypeFor[resource.Quantity]():                            formQuantity,
	reflect.TypeFor[intstr.IntOrString]():                           formIntOrString,
	reflect.TypeFor[runtime.RawExtension]():                         formRaw,
	reflect.TypeFor[metav1.FieldsV1]():                              formRaw,
	reflect.TypeFor[apiextensionsv1.JSON]():                         formRaw,
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():       formSchemaOrArray,
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():        formSchemaOrBool,
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): formSchemaOrStrings,
}

// marshalsJSON tells types that write their own JSON; each needs a form.
var marshalsJSON = reflect.TypeFor[interface{ MarshalJSON() ([]byte, error) }]()

// name returns the name of a message type.
func name(message reflect.Type) string { return message.PkgPath() + "." + message.Name() }

// fields returns the fields of a message type, sorted by number.
func fields(message reflect.Type) ([]field, error) {
	var members []field
	for at := range message.NumField() {
		member := message.Field(at)
		tag, ok := member.Tag.Lookup("protobuf")
		jsonName, options, _ := strings.Cut(member.Tag.Get("json"), ",")
		if !ok {
			// Type meta is outside of the message; without a JSON form nothing is lost.
			if member.Type == reflect.TypeFor[metav1.TypeMeta]() || jsonName == "-" || !member.IsExported() {
				continue
			}
			return nil, fmt.Errorf("%s.%s: no protobuf tag", name(message), member.Name)
		}
		entry, err := fieldOf(member.Type, tag)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", name(message), member.Name, err)
		}
		inline := strings.Contains(","+options+",", ",inline,") || (member.Anonymous && jsonName == "")
		switch {
		case jsonName == "-":
			entry.form, entry.message = formHidden, nil
		case inline:
			if entry.form != formMessage || entry.flags != 0 {
				return nil, fmt.Errorf("%s.%s: cannot be inlined", name(message), member.Name)
			}
			entry.form = formInline
		case jsonName == "":
			jsonName = member.Name
		}
		entry.name = jsonName
		if strings.Contains(","+options+",", ",omitempty,") {
			entry.flags |= flagOmitEmpty
		}
		if strings.Contains(","+options+",", ",omitzero,") {
			if entry.form != formTime {
				return nil, fmt.Errorf("%s.%s: omitzero is known of times only", name(message), member.Name)
			}
			entry.flags |= flagOmitZero
		}
		if jsonName == "volumeClaimTemplates" {
			entry.flags |= flagClaim
		}
		if entry.leftOut() {
			entry.flags |= flagLeftOut
		}
		members = append(members, entry)
	}
	slices.SortFunc(members, func(a, b field) int { return a.number - b.number })
	for at := 1; at < len(members); at++ {
		if members[at-1].number == members[at].number {
			return nil, fmt.Errorf("%s: two fields %d", name(message), members[at].number)
		}
	}
	return members, nil
}

// leftOut returns whether Go's encoder writes nothing for the field if it has the zero value. Structs have no empty value.
func (f field) leftOut() bool {
	switch {
	case f.form == formHidden || f.flags&flagOmitZero != 0:
		return true
	case f.form == formInline || f.flags&flagOmitEmpty == 0:
		return false
	default:
		return f.flags&(flagPointer|flagMap|flagRepeated) != 0 || f.form < formMessage || f.form == formItems
	}
}

// fieldOf returns the field with that tag, such as `bytes,3,opt,name=namespace`. The wire type follows from the Go type: some
// tags have a wrong one, and the generator of the Go code does not read it.
func fieldOf(value reflect.Type, tag string) (field, error) {
	parts := strings.Split(tag, ",")
	if len(parts) < 3 {
		return field{}, fmt.Errorf("the tag %q is too short", tag)
	}
	number, err := strconv.Atoi(parts[1])
	if err != nil || number < 1 || number > 0xffff {
		return field{}, fmt.Errorf("no field number in %q", tag)
	}
	entry := field{number: number}
	if value.Kind() == reflect.Pointer {
		entry.flags |= flagPointer
		value = value.Elem()
	}
	switch {
	case value.Kind() == reflect.Map && value.Key().Kind() == reflect.String:
		entry.flags |= flagMap
		value = value.Elem()
	case value.Kind() == reflect.Slice && value.Elem().Kind() != reflect.Uint8 && !reflect.PointerTo(value).Implements(messageType):
		entry.flags |= flagRepeated
		value = value.Elem()
	}
	entry.form, err = formOf(value)
	if err != nil {
		return field{}, err
	}
	if entry.flags&flagPointer != 0 && entry.flags&(flagMap|flagRepeated) != 0 {
		return field{}, fmt.Errorf("a pointer to %s", value)
	}
	if entry.form == formMessage {
		entry.message = value
	}
	return entry, nil
}

// formOf returns how a value that is not repeated is written.
func formOf(value reflect.Type) (form, error) {
	if known, ok := special[value]; ok {
		return known, nil
	}
	if reflect.PointerTo(value).Implements(marshalsJSON) {
		return 0, fmt.Errorf("%s writes its own JSON", value)
	}
	switch value.Kind() {
	case reflect.String:
		return formString, nil
	case reflect.Bool:
		return formBool, nil
	case reflect.Int32:
		return formInt32, nil
	case reflect.Int64:
		return formInt64, nil
	case reflect.Uint32:
		return formUint32, nil
	case reflect.Uint64:
		return formUint64, nil
	case reflect.Float32:
		return formFloat32, nil
	case reflect.Float64:
		return formFloat64, nil
	case reflect.Struct:
		return formMessage, nil
	case reflect.Slice:
		if value.Elem().Kind() == reflect.Uint8 {
			return formBytes, nil
		}
		// A named slice of strings is a message of its own.
		if value.Elem().Kind() == reflect.String && reflect.PointerTo(value).Implements(messageType) {
			return formItems, nil
		}
	}
	return 0, fmt.Errorf("%s has no known form", value)
}
