package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

var (
	documents = []string{
		`null`, `true`, `-1.5e3`, `"a \u2028 <&> \ud83d\ude00"`, `{}`, `[]`, ` {"a": [1, {"b": null}], "apiVersion": "v1"} `,
	}
	quantities = []string{
		"0", "1", "-5", "100m", "1500m", "0.5", "1.5Gi", "1Ki", "1024Ki", "12e3", "12e6", "1E", "100n", "0.1n", "+3", "007", "9223372036854775807",
		"99999999999999999999", "0.3Ki", "1025", "1.0", "1e-3", "-2048Ki", "1000k",
	}
	stringSamples = []string{
		"", "a", "app.kubernetes.io/name", "quote\" back\\slash", "line\nfeed\ttab\x00\x1f\x7f", "\u2028\u2029<>&", "😀\u0301ä", "\xff\xc3(\xe2\x82", "\xed\xa0\x80",
	}
)

func text(random *rand.Rand) string {
	if random.Intn(3) > 0 {
		return stringSamples[random.Intn(len(stringSamples))]
	}
	return fmt.Sprintf("text-%d", random.Intn(1000))
}

// newFiller returns a filler of objects, whose pointers, maps and lists are often nil, and empty now and then.
func newFiller(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.6).NumElements(0, 2).MaxDepth(25).Funcs(
		func(value *string, c randfill.Continue) { *value = text(c.Rand) },
		func(value *float64, c randfill.Continue) {
			*value = []float64{0, math.Copysign(0, -1), 1, -1.5, 1e-6, 9e-7, 1e20, 1e21, 5e-324, math.MaxFloat64, c.Float64()}[c.Intn(11)]
		},
		func(value *int64, c randfill.Continue) {
			*value = []int64{0, 1, -1, math.MaxInt64, math.MinInt64, c.Int63()}[c.Intn(6)]
		},
		func(value *int32, c randfill.Continue) {
			*value = []int32{0, 1, -1, math.MaxInt32, math.MinInt32, c.Int31()}[c.Intn(6)]
		},
		func(value *intstr.IntOrString, c randfill.Continue) {
			*value = intstr.FromString(text(c.Rand))
			if c.Bool() {
				c.Fill(&value.IntVal)
				value.Type = intstr.Int
			}
		},
		func(value *resource.Quantity, c randfill.Continue) {
			if c.Intn(4) > 0 {
				*value = resource.MustParse(quantities[c.Intn(len(quantities))])
			}
		},
		func(value *metav1.Time, c randfill.Continue) { value.Time = moment(c.Rand) },
		func(value *metav1.MicroTime, c randfill.Continue) { value.Time = moment(c.Rand) },
		func(value *metav1.Duration, c randfill.Continue) {
			value.Duration = time.Duration([]int64{0, 1, -1, 1500, 2_500_000, 90_000_000_000, math.MinInt64, c.Int63()}[c.Intn(8)])
		},
		func(value *metav1.FieldsV1, c randfill.Continue) { value.SetRawBytes(document(c.Rand)) },
		func(value *runtime.RawExtension, c randfill.Continue) { value.Raw = document(c.Rand) },
		func(value *apiextensionsv1.JSON, c randfill.Continue) { value.Raw = document(c.Rand) },
		func(value *metav1.TypeMeta, _ randfill.Continue) {},
	)
}

// moment returns a time: zero, whole, with a fraction, before 1970, or after the year 9999.
func moment(random *rand.Rand) time.Time {
	seconds := []int64{0, 1, -1, -62135596800, -62135596801, 253402300800, random.Int63n(4e9) - 1e9}
	if random.Intn(6) == 0 {
		return time.Time{}
	}
	return time.Unix(seconds[random.Intn(len(seconds))], []int64{0, 1, 999_999_999, 123_456_000}[random.Intn(4)])
}

func document(random *rand.Rand) []byte {
	if random.Intn(5) == 0 {
		return nil
	}
	return []byte(documents[random.Intn(len(documents))])
}

// writeRandom writes count objects of each kind, as pairs of what Go's encoders make of them.
func writeRandom(out *bufio.Writer, all []kind, seed int64, count int) error {
	for at, one := range all {
		filler := newFiller(seed + int64(at))
		random := rand.New(rand.NewSource(seed + int64(at)))
		for range count {
			object := reflect.New(one.object)
			filler.Fill(object.Interface())
			body, err := object.Interface().(message).Marshal()
			if err != nil {
				return fmt.Errorf("%s: %w", one, err)
			}
			if err := writePair(out, one, body); err != nil {
				return err
			}
			if err := writePair(out, one, shuffled(random, body, 3)); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeQuantities writes resource quotas with odd quantities.
func writeQuantities(out *bufio.Writer, all []kind, seed int64, count int) error {
	random := rand.New(rand.NewSource(seed))
	digits := func(most int) string {
		var written strings.Builder
		for range random.Intn(most + 1) {
			written.WriteByte("0001234567899"[random.Intn(13)])
		}
		return written.String()
	}
	suffixes := strings.Split(",,n,u,m,k,M,G,T,P,E,Ki,Mi,Gi,Ti,Pi,Ei,e3,E-2,e+7,e12,e-30,i,e,x,K,m1", ",")
	for _, one := range all {
		if one.String() != "v1/ResourceQuota" {
			continue
		}
		for range count {
			odd := []string{"", "", "-", "+"}[random.Intn(4)] + digits([]int{2, 4, 20, 40}[random.Intn(4)])
			if random.Intn(2) == 0 {
				odd += "." + digits([]int{1, 3, 12}[random.Intn(3)])
			}
			odd += suffixes[random.Intn(len(suffixes))]
			quantity := appendPart(nil, 1, []byte(odd))
			entry := appendPart(appendPart(nil, 1, []byte("cpu")), 2, quantity)
			body := appendPart(nil, 2, appendPart(nil, 1, entry))
			if err := writePair(out, one, body); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeRead writes each message of a kind that stands in the input, with its length before it.
func writeRead(out *bufio.Writer, all []kind, in io.Reader, name string) error {
	at := slices.IndexFunc(all, func(one kind) bool { return one.String() == name })
	if at < 0 {
		return fmt.Errorf("no kind %s", name)
	}
	reader := bufio.NewReader(in)
	for {
		var length uint32
		if err := binary.Read(reader, binary.LittleEndian, &length); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(reader, body); err != nil {
			return err
		}
		if err := writePair(out, all[at], body); err != nil {
			return err
		}
	}
}

// writePair writes kind, body, and the JSON that Go makes of the body; no JSON if Go refuses it. Each has its length before it.
func writePair(out *bufio.Writer, one kind, body []byte) error {
	object := reflect.New(one.object)
	document, err := []byte(nil), object.Interface().(message).Unmarshal(body)
	if err == nil {
		if meta := object.Elem().FieldByName("TypeMeta"); meta.IsValid() {
			meta.Set(reflect.ValueOf(metav1.TypeMeta{APIVersion: one.apiVersion, Kind: one.kind}))
		}
		document, err = json.Marshal(object.Interface())
	}
	if err != nil {
		document = nil
	}
	for _, part := range [][]byte{[]byte(one.apiVersion), []byte(one.kind), body, document} {
		if _, err := out.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(part))), part...)); err != nil {
			return err
		}
	}
	return nil
}
