import { z } from 'zod';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import { requireText } from '../credentials/key-pair.ts';
import { ROTATED_FILES } from '../credentials/key-files.ts';
import { kubectl } from '../kubectl.ts';

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
const shape = z.object({ data: z.record(z.string(), z.string()).default({}) });

/**
 * Removes CAs that are no longer trusted from the ConfigMap kube-system/extension-apiserver-authentication.
 * This ConfigMap tells extension API servers and the scheduler which clients to trust. API servers add their
 * CAs to it and remove none before it expires
 * (k8s.io/kubernetes/pkg/controlplane/controller/clusterauthenticationtrust). Without this removal, the
 * holder of a lost front-proxy key could act as any user at these servers. An API server that still trusts a
 * removed CA adds it again, so call this function when no API server trusts the previous CAs any more. May be
 * repeated.
 */
export async function removeRetiredCas(
  { commands, files }: Pick<SystemPorts, 'commands' | 'files'>,
  signal: AbortSignal,
): Promise<void> {
  if ((await files.stat(ROTATED_FILES.issuerCert)) === undefined) return;
  const trusted = {
    'client-ca-file': certificatesIn(await requireText(files, ROTATED_FILES.clientsTrustBundle)),
    'requestheader-client-ca-file': certificatesIn(
      await requireText(files, ROTATED_FILES.frontProxyTrustBundle),
    ),
  };
  const call = (verb: string, ...options: string[]): Promise<string> => {
    const name = ['configmap', 'extension-apiserver-authentication'];
    return kubectl(commands, ['--namespace', 'kube-system', verb, ...name, ...options], signal);
  };
  const { data } = shape.parse(JSON.parse(await call('get', '--output', 'json')));
  const kept: Record<string, string> = {};
  for (const [key, certificates] of Object.entries(trusted)) {
    const listed = certificatesIn(data[key] ?? '');
    if (listed.some((pem) => !certificates.includes(pem))) kept[key] = certificates.join('');
  }
  if (Object.keys(kept).length > 0)
    await call('patch', '--type', 'merge', '--patch', JSON.stringify({ data: kept }));
}

/** The certificates in a PEM bundle, each normalized to the same form. */
function certificatesIn(bundle: string): readonly string[] {
  return [...bundle.matchAll(CERTIFICATE)].map(([pem]) => `${pem.replaceAll(/\s*\r?\n\s*/g, '\n')}\n`);
}
