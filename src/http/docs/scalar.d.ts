// The bundle of the API reference, imported `with { type: 'file' }`: the import gives the path of the file, which is
// inside the executable.

declare module '*/browser/standalone.js' {
  const path: string
  export default path
}
