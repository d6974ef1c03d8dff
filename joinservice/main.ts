import { SystemClock } from '../internal/clock/index.ts';
import { PORTS } from '../internal/endpoint/index.ts';
import { describeError, EXIT_CODES, findCoded, isAbort } from '../internal/errors/index.ts';
import { DiskFiles, DiskStreams, readText } from '../internal/file/index.ts';
import { createLogger, lineSink, ignoreOutputErrors } from '../internal/logging/index.ts';
import { usageOf } from '../internal/metrics/index.ts';
import { VERSION } from '../internal/versions/index.ts';
import { parseJoinserviceConfig, serve } from './server/index.ts';

/** `joinservice CONFIG`: runs the curator and the join service, unprivileged, as a systemd unit that the agent manages. */
const MAX_CONFIG_BYTES = 64 * 1024;
const clock = new SystemClock();
const files = new DiskFiles();
ignoreOutputErrors(process.stderr); // Node.js writes its warnings to stderr
const log = createLogger({
  path: 'joinservice',
  nowMs: () => clock.nowMs(),
  sink: lineSink(process.stdout),
});

const stop = new AbortController();
for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => stop.abort(new Error(name)));

try {
  const path = process.argv[2] ?? '/etc/cluster/joinservice.json';
  const text = (await readText(files, path, MAX_CONFIG_BYTES)) ?? '';
  const config = parseJoinserviceConfig(path, text);
  await serve(
    config,
    { files, streams: new DiskStreams(), clock, log },
    {
      signal: stop.signal,
      metrics: {
        port: config.metricsPort ?? PORTS.joinserviceMetrics,
        version: VERSION,
        usage: () => usageOf(process),
      },
    },
  );
} catch (error) {
  if (!isAbort(error, stop.signal)) {
    log.error('stopping', { error: describeError(error), code: findCoded(error)?.code });
    process.exitCode = EXIT_CODES[findCoded(error)?.exit ?? 'internal'].number;
  }
}
