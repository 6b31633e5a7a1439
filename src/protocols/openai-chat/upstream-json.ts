// What is certain about JSON of providers: see ../json.ts.

export { isObject, nonEmpty, parseJson } from '../json.ts'
