import { withTimeout } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { parseEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import type { FilePort } from '../../internal/file/index.ts';

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
export class KnownEndpoints implements EndpointSource {
  readonly name: string;
  readonly #list: () => readonly string[];

  constructor(name: string, list: () => readonly string[]) {
    this.name = name;
    this.#list = list;
  }

  list(): Promise<readonly string[]> {
    return Promise.resolve(this.#list());
  }
}

/**
 * A JSON file with the key `joinEndpoints`, which cloud-init writes from user data, possibly after the agent
 * was started. Other keys of the file are ignored.
 */
export class FileEndpoints implements EndpointSource {
  readonly name = 'cloud-init';
  readonly #files: FilePort;
  readonly #path: string;

  constructor(files: FilePort, path: string) {
    this.#files = files;
    this.#path = path;
  }

  async list(): Promise<readonly string[]> {
    const raw = await this.#files.read(this.#path, MAX_BYTES);
    return raw === undefined ? [] : endpointsIn(Buffer.from(raw).toString('utf8'));
  }
}

/**
 * The metadata service of a cloud. Providers differ in the request and in the format around an operator's
 * user data. `http` is the plain one: a URL that returns the JSON of `FileEndpoints`. Providers for AWS, GCP,
 * Azure and OpenStack need only another request and another `parse()`.
 */
export interface MetadataProvider {
  readonly name: string;
  request(): { readonly url: string; readonly headers: Readonly<Record<string, string>> };
  /** The endpoints in a response body. */
  parse(body: string): readonly string[];
}

export function httpMetadata(url: string): MetadataProvider {
  return { name: 'http', request: () => ({ url, headers: {} }), parse: endpointsIn };
}

/** Fetches a small text; rejects on any status except 2xx. */
export type HttpGet = (
  request: {
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly maxBytes: number;
  },
  signal: AbortSignal,
) => Promise<string>;

export class MetadataEndpoints implements EndpointSource {
  readonly name: string;
  readonly #provider: MetadataProvider;
  readonly #get: HttpGet;

  constructor(provider: MetadataProvider, get: HttpGet) {
    this.name = `metadata/${provider.name}`;
    this.#provider = provider;
    this.#get = get;
  }

  async list(signal: AbortSignal): Promise<readonly string[]> {
    return this.#provider.parse(
      await this.#get({ ...this.#provider.request(), maxBytes: MAX_BYTES }, signal),
    );
  }
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
