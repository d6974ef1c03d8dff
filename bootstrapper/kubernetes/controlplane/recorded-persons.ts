import { Agent } from 'node:https';
import type { Clock } from '../../../internal/clock/index.ts';
import { readText, type FilePort } from '../../../internal/file/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import {
  parseRecordedPersons,
  RECORDED_PERSONS_PATH,
  type RecordedPerson,
} from '../../../internal/role/index.ts';
import { getHttps } from './api-probe.ts';
import { writeAuthorizationConfig, type AuthorizationOptions } from './authorization-config.ts';

/** A removed owner, operator or viewer is refused after this time, and the time of one read, at the latest. */
const POLL_MS = 3_000;
/** A read that takes longer counts as failed. */
const ANSWER_MS = 2_000;
const MAX_CHARS = 1024 * 1024;
const MAX_PEM_BYTES = 64 * 1024;

/** The files of this node, and what the following needs besides. */
export interface PersonListPorts {
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
}

/** How the webhook is reached now. The CA of the cluster may be replaced while the list is followed. */
type Webhook = Omit<AuthorizationOptions, 'persons'>;

/**
 * Keeps the list of recorded people in the authorization configuration, until the signal fires: reads it from the webhook every three
 * seconds. When a read fails, the configuration gets an empty list, so that the API server asks the webhook about everybody and decides as
 * it does when the webhook does not answer. The list is also empty when the function returns.
 */
export async function followRecordedPersons(
  { files, clock, log }: PersonListPorts,
  webhook: () => Webhook,
  signal: AbortSignal,
): Promise<never> {
  let options = webhook();
  /** An open connection; undefined after a failure, because the certificates may have been replaced. */
  let connection: Agent | undefined;
  let hasFailed = false;
  const read = async (): Promise<readonly RecordedPerson[]> => {
    try {
      connection ??= await connect(files, options);
      const persons = await readPersons(connection, options.port, signal);
      hasFailed = false;
      return persons;
    } catch (error) {
      connection?.destroy();
      connection = undefined;
      if (!hasFailed && !signal.aborted) log.warn('reading the recorded people failed', { error });
      hasFailed = true;
      return [];
    }
  };
  try {
    for (;;) {
      options = webhook();
      const persons = await read();
      signal.throwIfAborted();
      await writeAuthorizationConfig(files, { ...options, persons });
      await clock.sleep(POLL_MS, signal);
    }
  } finally {
    connection?.destroy();
    await writeAuthorizationConfig(files, { ...options, persons: [] });
  }
}

async function connect(files: FilePort, { nodeId, clusterCaPem, client }: Webhook): Promise<Agent> {
  const [cert, key] = await Promise.all(
    [client.certFile, client.keyFile].map((path) => readText(files, path, MAX_PEM_BYTES)),
  );
  return new Agent({ keepAlive: true, maxSockets: 1, servername: nodeId, ca: clusterCaPem, cert, key });
}

async function readPersons(
  agent: Agent,
  port: number,
  signal: AbortSignal,
): Promise<readonly RecordedPerson[]> {
  const request = { host: '127.0.0.1', port, path: RECORDED_PERSONS_PATH, timeout: ANSWER_MS };
  const { status, body } = await getHttps({ ...request, agent, signal }, MAX_CHARS);
  if (status !== 200) throw new Error(`the authorization webhook answered ${status}`);
  return parseRecordedPersons(body);
}
