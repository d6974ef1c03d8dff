import { SystemClock } from '../../internal/clock/index.ts';
import { describeError, EXIT_CODES, findCoded, isAbort } from '../../internal/errors/index.ts';
import { DiskFiles, readText } from '../../internal/file/index.ts';
import { createLogger, lineSink, ignoreOutputErrors } from '../../internal/logging/index.ts';
import { parseSignerConfig } from './signer-config.ts';
import { serveSigner } from './serve-signer.ts';

/** `signer CONFIG`: has the CA keys of the cluster and no network. */
const MAX_CONFIG_BYTES = 64 * 1024;
const clock = new SystemClock();
const files = new DiskFiles();
ignoreOutputErrors(process.stderr); // Node.js writes its warnings to stderr
const log = createLogger({
  path: 'signer',
  nowMs: () => clock.nowMs(),
  sink: lineSink(process.stdout),
});

const stop = new AbortController();
for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => stop.abort(new Error(name)));
process.umask(0o007); // the group of the join service may use the socket

try {
  const path = process.argv[2] ?? '/etc/cluster/signer.json';
  const text = (await readText(files, path, MAX_CONFIG_BYTES)) ?? '';
  await serveSigner(parseSignerConfig(path, text), { files, clock, log }, { signal: stop.signal });
} catch (error) {
  if (!isAbort(error, stop.signal)) {
    log.error('stopping', { error: describeError(error), code: findCoded(error)?.code });
    process.exitCode = EXIT_CODES[findCoded(error)?.exit ?? 'internal'].number;
  }
}
