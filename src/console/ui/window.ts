import { type RefObject, useEffect, useState } from 'react'

/** Rows rendered above and below the visible ones, so that quick scrolling shows no gaps. */
const spare = 12

/** Which rows of a long list with equal heights to render: `from` up to `to`. */
export function useWindow(box: RefObject<HTMLElement | null>, rows: number, rowHeight: number) {
  const [first, setFirst] = useState(0)
  const [visible, setVisible] = useState(30)
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) =>
      setVisible(Math.ceil(entry!.contentRect.height / rowHeight)),
    )
    observer.observe(box.current!)
    return () => observer.disconnect()
  }, [box, rowHeight])
  // In steps, so that scrolling by a few pixels changes nothing in the page.
  const step = Math.floor(spare / 2)
  const onScroll = () => {
    const at = Math.floor(box.current!.scrollTop / rowHeight)
    setFirst(Math.floor(at / step) * step)
  }
  return { from: Math.max(0, first - spare), to: Math.min(rows, first + visible + spare + step), onScroll }
}
