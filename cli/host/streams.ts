/** An output stream of this process. */
export type OutputStream = NodeJS.WritableStream & { readonly isTTY?: boolean; readonly columns?: number };

/** The standard streams. Results go to `out`, messages to `err`. */
export interface Streams {
  readonly in: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  readonly out: OutputStream;
  readonly err: OutputStream;
}
