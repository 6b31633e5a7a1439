// Pages are imported `with { type: 'text' }`: the import gives their text, which is inside the executable.

declare module '*.md' {
  const text: string
  export default text
}
