/** Names the headers that shared caches follow and browsers ignore. */

/**
 * Returns whether a header speaks to shared caches alone, which follow it instead of `Cache-Control` (RFC 9213, and what
 * caches had before it).
 */
export function isForSharedCaches(name: string): boolean {
  // Most names end otherwise: a handler's headers are looked at for each answer.
  const last = name.charCodeAt(name.length - 1) | LOWER_CASE;
  return (last === L || last === S) && FOR_SHARED_CACHES.test(name);
}

const LOWER_CASE = 0x20;

const L = 0x6c;

const S = 0x73;

const FOR_SHARED_CACHES = /^(?:.+-cache-control|surrogate-control|edge-control|x-accel-expires)$/i;
