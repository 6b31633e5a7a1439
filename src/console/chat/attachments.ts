// Files as parts of a question.

import { t } from '../strings/text.ts'
import type { Attachment } from './thread/thread.ts'

/** Requests are limited to 10 MiB by default, including the overhead of base64 and JSON. */
export const mostCharacters = 9_000_000

export function tooLarge(attachments: readonly Attachment[]): boolean {
  return attachments.reduce((sum, { data }) => sum + data.length, 0) > mostCharacters
}

const plainText = /^text\/|json|xml|yaml|javascript|typescript|toml|csv|x-sh|sql/
const plainName =
  /\.(?:md|txt|csv|json|ya?ml|toml|xml|html?|css|[cm]?[jt]sx?|py|rb|go|rs|java|kt|c|h|cpp|cs|sh|sql|log|ini)$/i

/** Plain text is sent as text, which every model reads; everything else as a data URL. */
export async function readAttachment(file: File): Promise<Attachment> {
  const { name, type } = file
  if (plainText.test(type) || plainName.test(name))
    return { name, type: 'text/plain', data: await file.text() }
  return { name, type: type || 'application/octet-stream', data: await dataUrlOf(file) }
}

function dataUrlOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.addEventListener('load', () => resolve(String(reader.result)))
    reader.addEventListener('error', () => reject(reader.error ?? new Error(t('The file cannot be read.'))))
    reader.readAsDataURL(file)
  })
}
