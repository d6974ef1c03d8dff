import type { Host, OutputStream } from './host.ts';

/** `Host.bytes` of an output stream. A write that fails rejects, so that nobody takes a cut file for a whole one. */
export function byteOutput(out: OutputStream): Host['bytes'] {
  if (out.isTTY === true) return undefined;
  return (data) =>
    new Promise((resolve, reject) => {
      out.write(data, (error) => {
        if (error) reject(error);
        else resolve();
      });
    });
}
