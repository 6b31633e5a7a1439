// The bundle of the API reference, imported `with { type: 'file' }`: what arrives is the path of the file, which lies
// inside the executable once that is built.

declare module '*/browser/standalone.js' {
  const path: string
  export default path
}
