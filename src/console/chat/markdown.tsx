// Formulas as MathML, which browsers show by themselves. The library that makes it is loaded with the first formula.

import DOMPurify from 'dompurify'
import { Marked } from 'marked'
import { memo, useEffect, useRef, useState, useSyncExternalStore } from 'react'
import { addressOf } from '../api/call.ts'
import { t } from '../strings/text.ts'
import { Button, Copy } from '../ui/kit.tsx'
import { cut, definitionsFor, definitionsIn, formulas, mayHaveFormulas, noBlocks, pageOf } from './blocks.ts'

type Temml = (typeof import('temml'))['default']

let temml: Temml | undefined
let loading: Promise<void> | undefined
const waiting = new Set<() => void>()

/** Nothing comes of a load that fails but the formula as it was written; the next one tries again. */
function load(): void {
  loading ??= import('temml').then(
    (loaded) => {
      temml = loaded.default
      for (const tell of waiting) tell()
    },
    () => {
      loading = undefined
    },
  )
}

function subscribe(tell: () => void): () => void {
  waiting.add(tell)
  return () => waiting.delete(tell)
}

/** Has the component rendered again when formulas can be typeset, if it has some. */
function useTypesetting(hasFormulas: boolean): void {
  useSyncExternalStore(subscribe, () => temml !== undefined)
  useEffect(() => {
    if (hasFormulas) load()
  }, [hasFormulas])
}

/** Sizes in em, and what macros may come to: an answer is no program. */
const bounds = { maxSize: [30, 30] as [number, number], maxExpand: 500 }

/** In texts quotation marks are entities. The page's policy allows no styles, and reports each. */
const styles = / style="[^"]*"/g

/** The MathML of a formula; undefined while the library is not there, and for what is not LaTeX. */
function typeset(latex: string, displayMode: boolean): string | undefined {
  try {
    const math = temml?.renderToString(latex, { displayMode, throwOnError: true, ...bounds })
    return math?.replaceAll(styles, '')
  } catch {
    return undefined
  }
}

/** What `typeset` makes, for the sanitizer. Not what links, acts or loads. */
const mathTags =
  'math mrow mi mn mo ms mtext mspace mfrac msqrt mroot mstyle mpadded mphantom msub msup msubsup munder mover munderover mmultiscripts mprescripts mtable mtr mtd'
const mathAttributes =
  'display displaystyle scriptlevel mathvariant fence form stretchy symmetric separator largeop movablelimits accent accentunder lspace rspace minsize maxsize linethickness width height depth voffset columnspan'

// Renders a model's answer. Its HTML and images are shown as text, and the rest is sanitized: an answer cannot run
// scripts or load anything.

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character]!)
}

const marked = new Marked({
  gfm: true,
  breaks: false,
  renderer: {
    html: ({ text }) => escapeHtml(text),
    // Loading an image could disclose the conversation to its server.
    image: ({ href, text }) => escapeHtml(`[${text || 'image'}: ${href}]`),
    // The first two heading levels are the page's title and the speaker.
    heading({ tokens, depth }) {
      const level = Math.min(6, depth + 2)
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>\n`
    },
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
  },
})

marked.use(
  formulas(({ text, latex, displayed }) => typeset(latex, displayed) ?? `<code>${escapeHtml(text)}</code>`),
)

const allowed = {
  ALLOWED_TAGS:
    `p br hr h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong del a table thead tbody tr th td sub sup ${mathTags}`.split(
      ' ',
    ),
  ALLOWED_ATTR: ['href', 'title', 'start', 'align', 'class', ...mathAttributes.split(' ')],
  // The rest must be an address, or it is removed.
  ADD_URI_SAFE_ATTR: ['start', 'align', 'class', ...mathAttributes.split(' ')],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  RETURN_TRUSTED_TYPE: true as const,
}

// Links in answers open outside of the console, without a referrer. A table may be wider than the screen: without a place
// in the tab order nobody could scroll it by the keyboard.
DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.nodeName === 'TABLE') node.setAttribute('tabindex', '0')
  if (node.nodeName !== 'A') return
  node.setAttribute('target', '_blank')
  node.setAttribute('rel', 'noreferrer nofollow')
})

/** A block that grows beyond this many characters is shown as plain text until it is finished. */
const longestOpen = 12_000

/** An answer; while it is growing, its last block is parsed again for each frame. */
export function Markdown({ text, growing = false }: { text: string; growing?: boolean }) {
  const blocks = useRef(noBlocks)
  // Start again if the text is not a continuation of the one split so far.
  const before = useRef('')
  if (!text.startsWith(before.current)) blocks.current = noBlocks
  before.current = text
  blocks.current = cut(blocks.current, text)
  const { done, start } = blocks.current
  const definitions = definitionsIn(text)
  return (
    <div className="prose" dir="auto">
      {done.map((block, index) => (
        <Block key={index} text={block} definitions={definitionsFor(block, definitions)} />
      ))}
      {growing && text.length - start > longestOpen ? (
        <p dir="auto" className="whitespace-pre-wrap">
          {text.slice(start)}
        </p>
      ) : (
        <Block text={text.slice(start)} definitions={definitionsFor(text.slice(start), definitions)} />
      )}
    </div>
  )
}

interface BlockProps {
  readonly text: string
  /** Of the links in it, which may be in another block. */
  readonly definitions: string
}

const Block = memo(function Block({ text, definitions }: BlockProps) {
  useTypesetting(mayHaveFormulas(text))
  const lexer = new marked.Lexer(marked.defaults)
  if (definitions !== '') Object.assign(lexer.tokens.links, marked.lexer(definitions).links)
  return lexer.lex(text).map((token, index) => {
    if (token.type === 'space') return null
    if (token.type === 'code')
      return <CodeBlock key={index} text={token['text']} language={token['lang'] ?? ''} />
    return <Sanitized key={index} html={marked.parser([token])} />
  })
})

function Sanitized({ html }: { html: string }) {
  const safe = DOMPurify.sanitize(html, allowed)
  // React passes the sanitizer's TrustedHTML to the browser unchanged.
  return <div className="contents" dangerouslySetInnerHTML={{ __html: safe as unknown as string }} />
}

function CodeBlock({ text, language }: { text: string; language: string }) {
  const name = language.split(/\s/)[0] ?? ''
  const page = pageOf(name, text)
  const [isShown, setShown] = useState(false)
  return (
    <div className="my-3">
      <div className="flex items-center gap-2 rounded-t-md border border-b-0 border-line bg-paper px-3 py-1 text-[12px] text-muted">
        <span className="flex-1 font-mono">{name || t('code')}</span>
        {page !== undefined && (
          <Button small look="quiet" aria-expanded={isShown} onClick={() => setShown(!isShown)}>
            {isShown ? t('Hide it') : t('Show it')}
          </Button>
        )}
        <Copy text={text} look="quiet" />
      </div>
      {page !== undefined && isShown && <Artifact page={page} />}
      <pre
        dir="ltr"
        className="mt-0! rounded-t-none!"
        tabIndex={0}
        role="group"
        aria-label={name || t('code')}
      >
        <code>{text}</code>
      </pre>
    </div>
  )
}

/** The frame has the text from a message: neither its address nor this page holds it. */
function Artifact({ page }: { page: string }) {
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
