/** A stream of this process, as far as a host looks at it. */
export type OutputStream = NodeJS.WritableStream & { readonly isTTY?: boolean; readonly columns?: number };

/** The standard streams. The answer goes to `out`, all talk to `err`. */
export interface Streams {
  readonly in: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  readonly out: OutputStream;
  readonly err: OutputStream;
}
