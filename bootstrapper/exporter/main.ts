import { PORTS } from '../../internal/endpoint/index.ts';
import { DiskFiles, readText } from '../../internal/file/index.ts';
import { readPage, renderNodeMetrics, type Page } from '../../internal/metrics/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { runProgram } from '../../internal/supervisor/index.ts';
import { askApiServer } from './ask-api-server.ts';
import { parseExporterConfig } from './exporter-config.ts';
import { serveExporter } from './serve-exporter.ts';
import { TokenReviews } from './token-reviews.ts';

/** `exporter CONFIG`: serves the metrics of this node to Prometheus, unprivileged, as a systemd unit that the agent manages. */
const MAX_BYTES = 64 * 1024;
const AGENT = `http://127.0.0.1:${PORTS.agentMetrics}/metrics`;
const files = new DiskFiles();

async function read(path: string): Promise<string> {
  const text = await readText(files, path, MAX_BYTES);
  if (text === undefined) throw new Error(`${path} not found`);
  return text;
}

function textOf(page: Page | undefined): string | undefined {
  return page?.ok === true ? page.text : undefined;
}

await runProgram(process, 'exporter', async ({ clock, signal }) => {
  const config = parseExporterConfig(await read(process.argv[2] ?? '/etc/cluster-exporter/config.json'));
  const { listen, apiServer, isControlPlane } = config;
  const access = { server: apiServer, caPem: await read(config.apiServerCaFile) };
  await serveExporter(
    {
      listen,
      tls: { certPem: await read(config.certFile), keyPem: new Secret(await read(config.keyFile)) },
      reviews: new TokenReviews({ ask: askApiServer(access, clock), clock }),
      render: (child) => {
        const from = (url: string) => readPage(url, { clock, signal: child });
        return renderNodeMetrics({
          agent: async () => textOf(await from(AGENT)),
          isControlPlane,
          read: from,
        });
      },
    },
    signal,
  );
});
