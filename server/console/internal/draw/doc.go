// Package draw makes small SVG pictures: [Graph] draws the steps of a saga, and [Timeline] draws the bars of a request.
//
// The pictures have classes and presentation attributes, and no style attribute and no script. So a strict
// Content-Security-Policy shows them, and the style sheet of the page decides the colors. Each picture has a title and a
// description for people who do not see it. Equal input gives equal bytes.
//
// All text is escaped. The package knows no store and no saga.
package draw
