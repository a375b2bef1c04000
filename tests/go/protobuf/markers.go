package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// sources is what the source of the types says beside the types. Types are known by package path and name.
type sources struct {
	// markers of types, and of fields by "type.Field": the comments that begin with a plus, without it.
	markers map[string][]string
	// values of the constants of named strings.
	values map[string][]string
	// constants by their name alone: those of one package may be used in another.
	constants map[string]string
}

// readSources reads the files with the types that these types are in. The module cache has them: the program was built with them.
func readSources(types []reflect.Type) (*sources, error) {
	all := &sources{markers: map[string][]string{}, values: map[string][]string{}, constants: map[string]string{}}
	var packages []string
	for _, kind := range types {
		packages = append(packages, kind.PkgPath())
	}
	slices.Sort(packages)
	for _, path := range slices.Compact(packages) {
		folder, err := folderOf(path)
		if err != nil {
			return nil, err
		}
		files, err := filepath.Glob(filepath.Join(folder, "*types*.go"))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("%s: no files with types (%w)", folder, err)
		}
		for _, file := range files {
			base := filepath.Base(file)
			if strings.HasPrefix(base, "zz_") || strings.HasPrefix(base, "types_swagger") || strings.HasSuffix(base, "_test.go") {
				continue
			}
			if err := all.read(path, file); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// folderOf returns the folder of a package in the module cache.
func folderOf(path string) (string, error) {
	cache := os.Getenv("GOMODCACHE")
	if cache == "" {
		cache = filepath.Join(filepath.SplitList(build.Default.GOPATH)[0], "pkg", "mod")
	}
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if rest, ok := strings.CutPrefix(path, module.Path+"/"); ok {
			if module.Replace != nil {
				module = module.Replace
			}
			return filepath.Join(cache, module.Path+"@"+module.Version, rest), nil
		}
	}
	return "", fmt.Errorf("no module has the package %s", path)
}

func (s *sources) read(path, file string) error {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	last := parsed.Name.End()
	for _, declaration := range parsed.Decls {
		general, ok := declaration.(*ast.GenDecl)
		if !ok {
			last = declaration.End()
			continue
		}
		for _, spec := range general.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				// Markers may be apart from the comment of the type.
				name := path + "." + spec.Name.Name
				s.markers[name] = between(parsed.Comments, last, spec.Pos())
				if structure, ok := spec.Type.(*ast.StructType); ok {
					for _, field := range structure.Fields.List {
						if field.Doc != nil {
							s.markers[name+"."+fieldName(field)] = between([]*ast.CommentGroup{field.Doc}, last, field.End())
						}
					}
				}
			case *ast.ValueSpec:
				s.constant(path, spec)
			}
		}
		last = general.End()
	}
	return nil
}

// constant notes the value of a constant; only strings are of use.
func (s *sources) constant(path string, spec *ast.ValueSpec) {
	if len(spec.Values) != 1 {
		return
	}
	kind, value := spec.Type, spec.Values[0]
	if call, ok := value.(*ast.CallExpr); ok && len(call.Args) == 1 {
		kind, value = call.Fun, call.Args[0]
	}
	var text string
	switch value := value.(type) {
	case *ast.BasicLit:
		unquoted, err := strconv.Unquote(value.Value)
		if err != nil || value.Kind != token.STRING {
			return
		}
		text = unquoted
	case *ast.SelectorExpr:
		text = s.constants[value.Sel.Name]
	default:
		return
	}
	s.constants[spec.Names[0].Name] = text
	if named, ok := kind.(*ast.Ident); ok {
		s.values[path+"."+named.Name] = append(s.values[path+"."+named.Name], text)
	}
}

func fieldName(field *ast.Field) string {
	if len(field.Names) > 0 {
		return field.Names[0].Name
	}
	kind := field.Type
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	if selector, ok := kind.(*ast.SelectorExpr); ok {
		return selector.Sel.Name
	}
	if ident, ok := kind.(*ast.Ident); ok {
		return ident.Name
	}
	return ""
}

// between returns the markers of the comments in a part of a file.
func between(comments []*ast.CommentGroup, from, to token.Pos) []string {
	var texts []string
	for _, group := range comments {
		if group.Pos() < from || group.End() > to {
			continue
		}
		for _, line := range group.List {
			text := strings.TrimSpace(strings.TrimPrefix(line.Text, "//"))
			if marker, ok := strings.CutPrefix(text, "+"); ok {
				texts = append(texts, marker)
			}
		}
	}
	return texts
}

// has returns whether a marker stands there as it is.
func (s *sources) has(name, marker string) bool { return slices.Contains(s.markers[name], marker) }

// settings returns the markers with the values behind their equals signs; of several the last one.
func (s *sources) settings(name string) map[string]string {
	values := map[string]string{}
	for _, marker := range s.markers[name] {
		key, value, _ := strings.Cut(marker, "=")
		values[key] = value
	}
	return values
}
