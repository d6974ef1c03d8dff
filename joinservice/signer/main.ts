import { DiskFiles, readText } from '../../internal/file/index.ts';
import { runProgram } from '../../internal/supervisor/index.ts';
import { parseSignerConfig } from './signer-config.ts';
import { serveSigner } from './serve-signer.ts';

/** `signer CONFIG`: has the CA keys of the cluster and no network. */
const MAX_CONFIG_BYTES = 64 * 1024;
const files = new DiskFiles();
process.umask(0o007); // The group of the join service may use the socket.

await runProgram(process, 'signer', async ({ clock, log, signal }) => {
  const path = process.argv[2] ?? '/etc/cluster/signer.json';
  const text = (await readText(files, path, MAX_CONFIG_BYTES)) ?? '';
  await serveSigner(parseSignerConfig(path, text), { files, clock, log }, { signal });
});
