import { withTimeout } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { parseEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';

const MAX_ENDPOINTS = 32;
const MAX_BYTES = 64 * 1024;

/** A source of endpoints of join services. It is untrusted: join services must prove their identity. */
export interface EndpointSource {
  /** Name of the source in logs and traces. */
  readonly name: string;
  /**
   * Endpoints as "host:port", or in any other format that `parseEndpoint` reads; empty when the source knows
   * none now.
   */
  list(signal: AbortSignal): Promise<readonly string[]>;
}

/** Endpoints from memory. */
export function knownEndpoints(name: string, list: () => readonly string[]): EndpointSource {
  return { name, list: () => Promise.resolve(list()) };
}

/**
 * A JSON file with the key `joinEndpoints`, which cloud-init writes from user data, possibly after the agent
 * was started. Other keys of the file are ignored.
 */
export function fileEndpoints(files: FilePort, path: string): EndpointSource {
  const list = async (): Promise<readonly string[]> => {
    const text = await readText(files, path, MAX_BYTES);
    return text === undefined ? [] : endpointsIn(text);
  };
  return { name: 'cloud-init', list };
}

/**
 * The metadata service of a cloud, at a URL that returns JSON in the format of `fileEndpoints()`. Each of
 * AWS, GCP, Azure and OpenStack would need another request and another format.
 */
export function metadataEndpoints(url: string): EndpointSource {
  return { name: 'metadata/http', list: async (signal) => endpointsIn(await httpGet(url, signal)) };
}

/** Fetches a small text; rejects on any status except 2xx. Follows no redirects. */
async function httpGet(url: string, signal: AbortSignal): Promise<string> {
  const response = await fetch(url, { redirect: 'error', signal });
  if (!response.ok || response.body === null) throw new Error(`asking ${url}: HTTP ${response.status}`);
  const parts: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const part of response.body as AsyncIterable<Uint8Array>) {
    sizeBytes += part.length;
    if (sizeBytes > MAX_BYTES) throw new RangeError(`asking ${url}: more than ${MAX_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

/** The result of a discovery. */
export interface DiscoveredEndpoints {
  /** Endpoints as "host:port", each once, in the order of the sources. */
  readonly endpoints: readonly string[];
  /** Sources that failed, and why. */
  readonly problems: readonly { readonly source: string; readonly why: string }[];
}

const SOURCE_MS = 5_000;

/** Reads all sources at the same time; a failing source does not affect the others. */
export async function discover(
  sources: readonly EndpointSource[],
  clock: Clock,
  signal: AbortSignal,
): Promise<DiscoveredEndpoints> {
  const answers = await Promise.allSettled(
    sources.map((source) =>
      withTimeout({ what: `asking ${source.name}`, ms: SOURCE_MS, clock, signal }, (limited) =>
        source.list(limited),
      ),
    ),
  );
  signal.throwIfAborted();
  const endpoints = new Set<string>();
  const problems: { source: string; why: string }[] = [];
  answers.forEach((answer, index) => {
    const source = sources[index]?.name ?? '';
    if (answer.status === 'rejected') {
      problems.push({ source, why: describeError(answer.reason) });
      return;
    }
    for (const text of answer.value) {
      const endpoint = parseEndpoint(text, PORTS.join);
      if (endpoint === undefined)
        problems.push({ source, why: `${JSON.stringify(text.slice(0, 80))} is not an endpoint` });
      else if (endpoints.size < MAX_ENDPOINTS) endpoints.add(endpoint);
    }
  });
  return { endpoints: [...endpoints], problems };
}

function endpointsIn(text: string): readonly string[] {
  const parsed: unknown = JSON.parse(text);
  const list = (parsed as { readonly joinEndpoints?: unknown } | null)?.joinEndpoints ?? [];
  if (!Array.isArray(list) || !list.every((each) => typeof each === 'string'))
    throw new TypeError('joinEndpoints is not a list of strings');
  return list;
}
