import type { HttpGet } from './discovery.ts';

/** Fetches a small text from a metadata service. Follows no redirects and reads at most `maxBytes`. */
export const httpGet: HttpGet = async ({ url, headers, maxBytes }, signal) => {
  const response = await fetch(url, { headers, redirect: 'error', signal });
  if (!response.ok || response.body === null) throw new Error(`asking ${url}: HTTP ${response.status}`);
  const parts: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const part of response.body as AsyncIterable<Uint8Array>) {
    sizeBytes += part.length;
    if (sizeBytes > maxBytes) throw new RangeError(`asking ${url}: more than ${maxBytes} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
};
