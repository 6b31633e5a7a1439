// The style and the script of the pages, imported `with { type: 'text' }`: the import gives their text, which is inside
// the executable.

declare module '*.css' {
  const text: string
  export default text
}

declare module '*/site-script.js' {
  const text: string
  export default text
}
