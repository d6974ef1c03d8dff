/** WatchRequest { create_request: 1 { key: 1 } } behind the five bytes of gRPC; a read has its key one level higher. */
const CREATE = /^[^]{5}\n[^]{1,2}\n[^](\/[ -~]+)/;

/** The key or prefix that a request to etcd asks to be followed; undefined where it asks for anything else. */
export function watchedKey(body: Buffer): string | undefined {
  return CREATE.exec(body.toString('latin1'))?.[1];
}
