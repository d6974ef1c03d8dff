import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SystemClock } from '../../../internal/clock/index.ts';
import { implement, RpcServer, tlsServerUpgrade } from '../../../internal/rpc/index.ts';
import { OperatorApi } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CredentialThief } from './stolen-credentials.ts';

const HOST = '127.0.0.1';

/**
 * A forged curator of an attacker with a copy of a control plane's disk. It answers every call and records the calls.
 */
export class FalseCurator implements AsyncDisposable {
  readonly endpoint: string;
  readonly calls: readonly string[];
  readonly #server: RpcServer<string>;

  private constructor(endpoint: string, calls: readonly string[], server: RpcServer<string>) {
    this.endpoint = endpoint;
    this.calls = calls;
    this.#server = server;
  }

  /** Listens with a certificate that the stolen cluster CA has issued. */
  static async start(thief: CredentialThief): Promise<FalseCurator> {
    const clock = new SystemClock();
    const calls: string[] = [];
    const answer = (name: string) => async () => {
      calls.push(name);
      return name === 'getClusterCa' ? { clusterCaPem: thief.clusterCaPem } : {};
    };
    const handlers = Object.fromEntries(
      OperatorApi.methods.map(({ localName }) => [localName, answer(localName)]),
    );
    const log = { info: ignore, warn: ignore, error: ignore, debug: ignore };
    const server = new RpcServer<string>({
      clock,
      upgrade: tlsServerUpgrade({
        ...{ clock, identity: await thief.controlPlaneCertificate(HOST) },
        accept: () => 'anybody',
      }),
      services: [implement(OperatorApi, handlers as never)],
      disclose: 'code',
      log: { ...log, child: () => log } as never,
    });
    return new FalseCurator(`${HOST}:${await server.listen(HOST, 0)}`, calls, server);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#server.close(0);
  }
}

/** Copies a workspace and diverts its calls: the copy knows one curator only. */
export async function divertedWorkspace(workspace: string, to: string, endpoint: string): Promise<string> {
  await cp(workspace, to, { recursive: true });
  const path = join(to, 'state.json');
  const state = JSON.parse(await readFile(path, 'utf8')) as {
    init: { result: { curatorEndpoints: string[] } };
  };
  state.init.result.curatorEndpoints = [endpoint];
  await writeFile(path, JSON.stringify(state), { mode: 0o600 });
  await writeFile(join(to, 'curators.json'), JSON.stringify({ version: 1, endpoints: [endpoint], epoch: 1 }));
  return to;
}

function ignore(): void {
  // The story looks at the calls only.
}
