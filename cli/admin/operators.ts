import { Admission } from '../../joinservice/curatorproto/gen/admission_pb.js';
import type { CommandContext } from '../app/command.ts';
import { printable } from '../cluster/index.ts';
import { formatAge, formatTable } from '../host/index.ts';
import { ask, newMutation } from './desk.ts';
import { AdminError } from './errors.ts';

const MAX_REQUEST_BYTES = 64 * 1024;
const BEGIN = '-----BEGIN CERTIFICATE REQUEST-----';
const END = '-----END CERTIFICATE REQUEST-----';

/** `cluster operator ls`. */
export async function runOperatorList(context: CommandContext): Promise<void> {
  const { operators } = await ask(context, (_, call, of) => of(Admission).listOperators({}, call));
  const views = operators.map(({ name, role, fingerprint, createdMs }) => ({
    name: printable(name),
    role: printable(role),
    fingerprint: printable(fingerprint),
    createdMs: Number(createdMs),
  }));
  const nowMs = context.ports.clock.nowMs();
  context.host.result({ operators: views }, () =>
    formatTable(
      ['NAME', 'ROLE', 'KEY', 'AGE'],
      views.map(({ name, role, fingerprint, createdMs }) => [
        name,
        role,
        fingerprint,
        formatAge(nowMs - createdMs),
      ]),
    ),
  );
}

export interface OperatorOptions {
  readonly role: string;
  /** PEM file of a certificate request: the key stays with whoever made it. */
  readonly request: string;
  /** Where the certificate is written; standard output unless said. */
  readonly out: string | undefined;
}

/** `cluster operator add`. */
export async function runOperatorAdd(
  context: CommandContext,
  name: string,
  options: OperatorOptions,
): Promise<void> {
  const { files } = context.ports;
  const raw = await files.read(options.request, MAX_REQUEST_BYTES);
  if (raw === undefined)
    throw new AdminError('manage-flag-invalid', `reading ${options.request}: there is no such file`);
  const certificateRequest = derOf(Buffer.from(raw).toString('utf8'), options.request);
  const answer = await ask(context, (_, call, of) =>
    of(Admission).putOperator(
      { name, role: options.role, certificateRequest, mutation: newMutation() },
      call,
    ),
  );
  const { certificatePem, clusterCaPem } = answer;
  const fingerprint = printable(answer.operator?.fingerprint ?? '');
  if (options.out !== undefined) await files.writeAtomic(options.out, certificatePem, { mode: 0o644 });
  context.host.result({ name, role: options.role, fingerprint, certificatePem, clusterCaPem }, () =>
    options.out === undefined
      ? printable(certificatePem).trimEnd()
      : `${name} is ${options.role}; the certificate is in ${options.out}.\n  key  ${fingerprint}`,
  );
}

/** `cluster operator remove`. */
export async function runOperatorRemove(context: CommandContext, name: string): Promise<void> {
  await ask(context, (_, call, of) => of(Admission).deleteOperator({ name, mutation: newMutation() }, call));
  context.host.result(
    { name, removed: true },
    () => `${name} is no operator any more: every curator refuses the key.`,
  );
}

/** A PEM request → DER. @throws AdminError `admin-flag-invalid` */
export function derOf(pem: string, path: string): Uint8Array {
  const from = pem.indexOf(BEGIN);
  const to = pem.indexOf(END);
  const body = from < 0 || to < from ? '' : pem.slice(from + BEGIN.length, to).replace(/\s/g, '');
  if (body === '' || !/^[A-Za-z0-9+/]+={0,2}$/.test(body))
    throw new AdminError(
      'manage-flag-invalid',
      `reading ${path}: a PEM certificate request is needed (openssl req -new -newkey ed25519 -nodes -keyout key.pem -subj /CN=NAME)`,
    );
  return new Uint8Array(Buffer.from(body, 'base64'));
}
