import { PORTS } from '../internal/endpoint/index.ts';
import { DiskFiles, DiskStreams, readText } from '../internal/file/index.ts';
import { usageOf } from '../internal/metrics/index.ts';
import { runProgram } from '../internal/supervisor/index.ts';
import { VERSION } from '../internal/versions/index.ts';
import { parseJoinserviceConfig, serve } from './server/index.ts';

/** `joinservice CONFIG`: runs the curator and the join service, unprivileged, as a systemd unit that the agent manages. */
const MAX_CONFIG_BYTES = 64 * 1024;
const files = new DiskFiles();

await runProgram(process, 'joinservice', async ({ clock, log, signal }) => {
  const path = process.argv[2] ?? '/etc/cluster/joinservice.json';
  const text = (await readText(files, path, MAX_CONFIG_BYTES)) ?? '';
  const config = parseJoinserviceConfig(path, text);
  await serve(
    config,
    { files, streams: new DiskStreams(), clock, log },
    {
      signal,
      metrics: {
        port: config.metricsPort ?? PORTS.joinserviceMetrics,
        version: VERSION,
        usage: () => usageOf(process),
      },
    },
  );
});
