import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Harness } from '../../machines/harness.ts';
import type { StoryCluster } from './story-cluster.ts';

/**
 * Installs Debian packages on a machine. The host downloads the packages that the machine lacks, because the
 * machine has no internet access.
 */
export async function installDebian(
  bench: Harness,
  cluster: StoryCluster,
  machine: string,
  packages: readonly string[],
): Promise<void> {
  const directory = await mkdtemp(join(bench.directory, 'packages-'));
  await mkdir(join(directory, 'partial'));
  const status = join(directory, 'status');
  await writeFile(status, await cluster.run(machine, 'cat', '/var/lib/dpkg/status'));
  const options = [
    `Dir::State::status=${status}`,
    `Dir::Cache::archives=${directory}/`,
    'APT::Sandbox::User=root',
  ];
  const { commands } = bench.machines;
  const { signal } = bench;
  const flags = [
    ...options.flatMap((each) => ['-o', each]),
    '--yes',
    '--no-install-recommends',
    '--download-only',
  ];
  await commands.run({ argv: ['apt-get', ...flags, 'install', ...packages], signal, timeoutMs: 300_000 });
  const tar = join(directory, 'packages.tar');
  const pack = `cd ${directory} && tar --create --file ${tar} *.deb`;
  await commands.run({ argv: ['sh', '-ec', pack], signal });
  const node = await (await bench.cluster(cluster.name)).node(machine);
  const install =
    'mkdir -p /root/packages && cd /root/packages && tar --extract && DEBIAN_FRONTEND=noninteractive apt-get --yes --no-install-recommends install ./*.deb && rm -r /root/packages';
  await node.exec(['sh', '-ec', install], { input: await readFile(tar), signal, timeoutMs: 300_000 });
}
