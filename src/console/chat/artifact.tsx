// HTML and SVG that a model wrote, shown as it will look: in a frame without an origin, which reaches nobody.

import { useState } from 'react'
import { addressOf } from '../api/call.ts'
import { t } from '../strings/text.ts'

/** A whole page of what a block of code holds; undefined where it is not shown as a page. */
export function pageOf(language: string, text: string): string | undefined {
  const name = language.toLowerCase()
  const begin = text.trimStart().slice(0, 500).toLowerCase()
  const isMarkup = name === '' || name === 'xml' || name === 'markup'
  if (name === 'svg' || (isMarkup && /^(?:<\?xml[^>]*>\s*)?(?:<!--[^]*?-->\s*)?<svg[\s>]/.test(begin)))
    return `<!doctype html><meta charset="utf-8"><style>html{height:100%}body{margin:0;min-height:100%;display:grid;place-items:center}svg{max-width:100%;height:auto}</style>${text}`
  if (name === 'html' || name === 'htm' || (name === '' && /^<(?:!doctype html|html)[\s>]/.test(begin)))
    return text
  return undefined
}

/** The frame has the text from a message: neither its address nor this page holds it. */
export function Artifact({ page }: { page: string }) {
  const [failed, setFailed] = useState(false)
  return (
    <>
      <iframe
        key={page}
        title={t('What the code shows, in a frame that reaches nothing')}
        src={addressOf('/console/artifact')}
        sandbox="allow-scripts"
        referrerPolicy="no-referrer"
        className="mt-0! block h-96 max-h-[80dvh] min-h-32 w-full resize-y overflow-auto border border-t-0 border-line bg-[#fff]"
        // Its origin is none that could be named.
        onLoad={({ currentTarget }) => currentTarget.contentWindow?.postMessage(page, '*')}
        onError={() => setFailed(true)}
      />
      {failed && <p role="alert">{t('It cannot be shown.')}</p>}
    </>
  )
}
