import { readTail, type StreamPort } from '../../../internal/file/index.ts';
import { readPart } from '../../cluster/index.ts';
import { addMissing, attemptFile, type Collecting } from '../attempt-file.ts';
import { MAX_POD_LOGS, SYSTEM_NAMESPACES } from '../collect-kubernetes.ts';
import { redactText } from '../redact/redact.ts';
import type { SupportFile } from '../support-file.ts';

const PODS = '/var/log/pods';
/** "NAMESPACE_POD_UID": only pods of the cluster itself, no workloads. */
const SYSTEM_POD = new RegExp(
  `^(?:${SYSTEM_NAMESPACES.join('|')})_([a-z0-9][a-z0-9.-]{0,120})_[0-9a-f-]{1,64}$`,
);
const CONTAINER = /^[a-z0-9][a-z0-9-]{0,62}$/;
const TAIL_BYTES = 1024 * 1024;

/** The last part of the newest log of each container of the cluster's own pods, which need no API server to be read. */
export async function* podLogs(
  collecting: Collecting,
  streams: Pick<StreamPort, 'readChunks'>,
  directory: string,
): AsyncGenerator<SupportFile> {
  const { context } = collecting;
  const { files } = context.ports;
  const list = async (path: string): Promise<readonly string[]> => {
    const names = await readPart(context, () => files.list(path));
    if (!names.ok) addMissing(collecting, `${directory}/pods`, names.error);
    return names.ok ? names.value : [];
  };
  const seen = new Set<string>();
  for (const pod of await list(PODS)) {
    const name = SYSTEM_POD.exec(pod)?.[1];
    if (name === undefined) continue;
    for (const container of await list(`${PODS}/${pod}`)) {
      const path = `${directory}/pods/${name}/${container}.log`;
      if (!CONTAINER.test(container) || seen.has(path)) continue;
      if (seen.size >= MAX_POD_LOGS)
        return addMissing(collecting, path, `more than ${MAX_POD_LOGS} logs of pods`);
      seen.add(path);
      const newest = newestOf(await list(`${PODS}/${pod}/${container}`));
      if (newest === undefined) continue;
      const from = `${PODS}/${pod}/${container}/${newest}`;
      yield* attemptFile(collecting, path, async (signal) => {
        const sizeBytes = (await files.stat(from))?.sizeBytes ?? 0;
        return redactText(await lastLines(streams, { path: from, sizeBytes }, signal));
      });
    }
  }
}

/** "3.log" of "2.log" and "3.log": the number is that of the restarts. */
function newestOf(names: readonly string[]): string | undefined {
  return names
    .filter((name) => /^\d{1,9}\.log$/.test(name))
    .toSorted((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10))
    .at(-1);
}

/**
 * The lines at the end of a log. If only its end was read, the first line is left out: the name of a setting may be in the part of the
 * line that was not read, and its secret in the other part.
 */
async function lastLines(
  streams: Pick<StreamPort, 'readChunks'>,
  { path, sizeBytes }: { readonly path: string; readonly sizeBytes: number },
  signal: AbortSignal,
): Promise<string> {
  const text = (await readTail(streams, path, { sizeBytes, maxBytes: TAIL_BYTES, signal })).toString('utf8');
  return sizeBytes <= TAIL_BYTES ? text : text.slice(text.indexOf('\n') + 1);
}
