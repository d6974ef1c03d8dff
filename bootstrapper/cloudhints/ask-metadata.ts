import { Agent, type IncomingMessage, request } from 'node:http';
import { describeError } from '../../internal/errors/index.ts';
import { CloudHintsError } from './errors.ts';

/** The address of the metadata service on every cloud: link-local, so no router forwards a request to it. */
export const METADATA_SERVICE = { host: '169.254.169.254', port: 80 } as const;
/** The maximum size of an answer. The largest answer that the agent uses (Azure's) has about 4 KiB. */
const MAX_BYTES = 64 * 1024;
const MAX_HEADER_BYTES = 8 * 1024;

/** A request to the metadata service. */
export interface MetadataRequest {
  /** Default: GET. */
  readonly method?: 'PUT';
  /** Path with query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The body of an answer; undefined when the service has no such value (404). */
export type AskMetadata = (request: MetadataRequest) => Promise<Uint8Array | undefined>;

/**
 * Creates a client of the metadata service, which is untrusted and speaks plain HTTP. It follows no redirect, uses no proxy and
 * accepts no answer above 64 KiB. The time limit is that of the signal.
 */
export function createMetadataClient(
  signal: AbortSignal,
  { host, port }: { readonly host: string; readonly port: number } = METADATA_SERVICE,
): AskMetadata {
  return async ({ method = 'GET', path, headers = {} }) => {
    // The global agent is not used: it takes the proxies from the environment if NODE_USE_ENV_PROXY is set.
    const agent = new Agent({ keepAlive: false });
    const options = {
      ...{ host, port, method, path, headers, agent, signal },
      maxHeaderSize: MAX_HEADER_BYTES,
    };
    try {
      return await new Promise<Uint8Array | undefined>((resolve, reject) => {
        const sent = request(options, (response) => void readBody(response, path).then(resolve, reject));
        sent.on('error', reject);
        sent.end();
      });
    } catch (cause) {
      signal.throwIfAborted();
      if (cause instanceof CloudHintsError) throw cause;
      throw unavailable(path, describeError(cause), cause);
    } finally {
      agent.destroy();
    }
  };
}

async function readBody(response: IncomingMessage, path: string): Promise<Uint8Array | undefined> {
  if (response.statusCode !== 200) response.destroy();
  if (response.statusCode === 404) return undefined;
  if (response.statusCode !== 200) throw unavailable(path, `HTTP ${response.statusCode}`);
  const parts: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const part of response as AsyncIterable<Uint8Array>) {
    sizeBytes += part.length;
    if (sizeBytes > MAX_BYTES)
      throw new CloudHintsError(
        'cloudhints-answer-invalid',
        `asking for ${path}: more than ${MAX_BYTES} bytes`,
      );
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function unavailable(path: string, why: string, cause?: unknown): CloudHintsError {
  return new CloudHintsError('cloudhints-unavailable', `asking for ${path}: ${why}`, { cause });
}
