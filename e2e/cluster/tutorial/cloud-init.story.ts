import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { installDebian } from '../harness/install-debian.ts';
import { limitCloudInit } from '../harness/limit-cloud-init.ts';
import { place } from '../harness/story-cluster.ts';
import { createPrivateCa } from '../settings/private-ca.ts';
import { keepMachinesOn } from './keep-machines-on.ts';
import { MACHINES, plainMachines } from './plain-machines.ts';
import { runPage } from './run-page.ts';
import { Workstation } from './workstation.ts';

const DIST = join(import.meta.dirname, '../../../dist');
const SERVER = 'packages.example.org';
/** Serves the agent's package over HTTPS to the machines. */
async function servePackage(
  address: string,
  certificate: { readonly certPem: string; readonly keyPem: string },
): Promise<AsyncDisposable> {
  const name = (await readdir(DIST)).find((file) => /^cluster-agent_.*\.deb$/.test(file)) ?? '';
  const content = await readFile(join(DIST, name));
  const server = createServer({ cert: certificate.certPem, key: certificate.keyPem }, (request, response) => {
    if (request.url === '/cluster-agent.deb') response.end(content);
    else response.writeHead(404).end();
  });
  server.listen(443, address);
  await once(server, 'listening');
  return {
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Runs the page about cloud-init: Debian's cloud-init, at the boot of four plain machines. */
await test('machines with user data become a cluster of three control planes and a worker', async (story) => {
  await using bench = await createHarness();
  const plain = await plainMachines(bench, 'cloudinit');
  const { cluster } = plain;
  const { caPem, issue } = await createPrivateCa(SERVER);
  const server = await cluster.workstation();
  await using _server = await servePackage(server, await issue());
  for (const machine of MACHINES) {
    await installDebian(bench, cluster, machine, ['cloud-init', 'ca-certificates']);
    await limitCloudInit(cluster, machine);
    await place(cluster, machine, '/usr/local/share/ca-certificates/story.crt', caPem);
    await cluster.sh(machine, `update-ca-certificates && echo '${server} ${SERVER}' >> /etc/hosts`);
  }
  const workstation = await Workstation.create(bench, { ...plain, kubectl: false });
  await using _machines = keepMachinesOn(cluster, MACHINES);

  await runPage(
    story,
    'cloud-init.md',
    { ...plain, workstation },
    {
      '6. Admit them': async () => {
        assert.match(workstation.output, /tolerates 1 failure/);
        await cluster.allReady(MACHINES, 60);
        assert.deepEqual(await cluster.etcdMembers(), { voters: 3, learners: 0 });
        for (const machine of MACHINES)
          assert.match(await cluster.run(machine, 'cloud-init', 'status'), /^status: done/);
      },
    },
  );
});
