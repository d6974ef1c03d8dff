import { expect, test } from '@jest/globals';
import { MemoryFiles, settle } from '../../internal/testing/index.ts';
import type { PreflightOptions } from '../preflight/index.ts';
import type { AgentPorts } from './agent-ports.ts';
import { createMachineChecks } from './machine-checks.ts';

const ports = {
  files: new MemoryFiles(),
  machine: { hostname: () => 'w1' },
  streams: {},
} as unknown as AgentPorts;

function createChecks() {
  const begun: { readonly options: PreflightOptions; readonly end: PromiseWithResolvers<void> }[] = [];
  const checks = createMachineChecks(ports, { address: '192.0.2.7' }, (_, options) => {
    const end = Promise.withResolvers<void>();
    begun.push({ options, end });
    return end.promise;
  });
  return { begun, checks };
}

test('a join is checked as an init is, with the machine’s own name, address and some room', async () => {
  const { begun, checks } = createChecks();
  const checked = checks.forJoin();
  await settle();
  expect(begun[0]?.options).toEqual({
    nodeName: 'w1',
    wantedAddress: '192.0.2.7',
    needed: { '/var/lib/cluster': 1024 ** 3, '/var/lib/containerd': 1024 ** 3 },
  });
  begun[0]?.end.resolve();
  await checked;
});

test('two checks run one after the other, also when the first finds something', async () => {
  const { begun, checks } = createChecks();
  const [first, second] = [checks.forJoin(), checks.forJoin()];
  await settle();
  expect(begun).toHaveLength(1);
  begun[0]?.end.reject(new Error('swap is on'));
  await expect(first).rejects.toThrow('swap is on');
  await settle();
  expect(begun).toHaveLength(2);
  begun[1]?.end.resolve();
  await second;
});
