import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { keepMachinesOn } from '../cluster/tutorial/keep-machines-on.ts';
import { plainMachines } from '../cluster/tutorial/plain-machines.ts';
import { Workstation } from '../cluster/tutorial/workstation.ts';
import { createHarness } from '../machines/harness.ts';

/** What a new operator may read: nothing that the tutorial does not lead to. */
const PAGES = ['README.md', 'ARCHITECTURE.md', 'docs'];

const HELP = `Prepares what the tutorial asks for, and leaves the rest to somebody who has never seen the code: four plain Debian machines
(containers with a software TPM, without internet) and a workstation. docs/new-operators.md has the results.

Usage: npm run newcomer -- DIRECTORY

DIRECTORY gets \`ws\`, which runs a command at the workstation (\`./ws 'cluster --help'\`), and \`READ-ME-FIRST.md\` with the addresses.
Needs root, the bundle and \`npm run build\`. Ctrl-C removes the machines.
`;

/** Prepares machines and workstation, and removes them at the first signal. */
async function run(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  const ended = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  await using bench = await createHarness();
  const plain = await plainMachines(bench, 'newcomer');
  const workstation = await Workstation.create(bench, { ...plain, kubectl: false });
  await using _ = keepMachinesOn(plain.cluster, plain.machines);
  await workstation.writeLauncher(join(directory, 'ws'));
  const addresses = await Promise.all(
    plain.machines.map(
      async (machine, index) => `10.0.0.2${index + 1} → ${await plain.cluster.address(machine)}`,
    ),
  );
  await writeFile(join(directory, 'READ-ME-FIRST.md'), introduction(addresses));
  process.stdout.write(`Ready: ${directory}/READ-ME-FIRST.md. Ctrl-C removes the machines.\n`);
  await ended;
}

function introduction(addresses: readonly string[]): string {
  return `# Your workstation and your machines

\`./ws 'COMMAND'\` runs a command in a shell at the workstation. It starts in the checkout, where the packages and the bundle are already
built; \`./ws 'cd prod && …'\` works in the workspace. Each call is a new shell: variables do not survive it.

Your addresses are not those of the tutorial:

${addresses.map((line) => `- ${line}`).join('\n')}

\`ssh\`, \`scp\`, \`sudo\` and \`apt-get\` of the workstation work with these machines only. A machine that reboots comes back by itself.
Pages: ${PAGES.map((page) => `\`${page}\``).join(', ')} of the checkout. Write down every point at which the text alone is not enough.
`;
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { help: { type: 'boolean', short: 'h' } },
});
const [directory] = positionals;
if (values.help === true || directory === undefined) {
  process.stdout.write(HELP);
  process.exitCode = values.help === true ? 0 : 2;
} else {
  await run(directory);
}
