// What the pages of the guide are made of, imported `with { type: 'text' }`: the import gives the text, which is inside
// the executable.

declare module '*.css' {
  const text: string
  export default text
}

declare module '*/site-script.js' {
  const text: string
  export default text
}

declare module '*.yaml' {
  const text: string
  export default text
}

declare module '*.md' {
  const text: string
  export default text
}
