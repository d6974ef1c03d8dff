/**
 * Matches WatchRequest { create_request: 1 { key: 1 } } after the five bytes of the gRPC frame. In a
 * Range request, the key is one level higher.
 */
const CREATE = /^[^]{5}\n[^]{1,2}\n[^](\/[ -~]+)/;

/** The key or prefix that a watch request names; undefined for any other request to etcd. */
export function watchedKey(body: Buffer): string | undefined {
  return CREATE.exec(body.toString('latin1'))?.[1];
}
