import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Harness } from '../../machines/harness.ts';
import { runGo } from '../../run-go.ts';
import type { StoryCluster } from '../harness/story-cluster.ts';

const MODULE = 'github.com/aws/amazon-ec2-metadata-mock/cmd/ec2-metadata-mock';
const SOURCE = resolve(import.meta.dirname, '../../metadata-peer');
const PROGRAM = '/opt/ec2-metadata-mock';

/** The default answers of amazon-ec2-metadata-mock. No machine in these stories has the address in them. */
export const MOCKED = {
  name: 'ip-172-16-34-43',
  address: '172.16.34.43',
  region: 'us-east-1',
  zone: 'us-east-1a',
} as const;

/** Builds AWS' own mock of the instance metadata service from its Go module, and returns the program. */
export async function buildMetadataMock(bench: Harness): Promise<Uint8Array> {
  const program = join(bench.directory, 'ec2-metadata-mock');
  await runGo(['build', '-trimpath', '-o', program, MODULE], { cwd: SOURCE, signal: bench.signal });
  return await readFile(program);
}

/** Runs the mock on a machine, at the link-local address of the service and only for requests with a token. */
export async function startMetadataMock(
  bench: Harness,
  cluster: StoryCluster,
  { machine, program }: { readonly machine: string; readonly program: Uint8Array },
): Promise<void> {
  const node = await (await bench.cluster(cluster.name)).node(machine);
  await node.exec(['sh', '-ec', `cat > ${PROGRAM} && chmod 700 ${PROGRAM}`], {
    input: program,
    signal: bench.signal,
  });
  await cluster.sh(
    machine,
    `ip address add 169.254.169.254/32 dev lo
     systemd-run --quiet --unit metadata-mock ${PROGRAM} --hostname 169.254.169.254 --port 80 --imdsv2
     until bash -c 'exec 3<> /dev/tcp/169.254.169.254/80' 2> /dev/null; do sleep 0.1; done`,
  );
}
