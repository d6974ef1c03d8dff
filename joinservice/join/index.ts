/**
 * The join service: machines prove their identity and become members (joinproto/join.proto).
 *
 * ```
 * machine ─attested TLS─▶ RequestAdmission ─▶ key ─▶ TPM challenge ─▶ decideJoin (pure) ─▶ joins/ID, audit, trace
 *                         IssueJoinTicket  ─▶ everything again ─▶ node UP, name, identity, audit ─▶ signer ─▶ ticket
 *                         IssueRejoinTicket ─▶ key and machine on record ─▶ signer ─▶ ticket
 *                         IssueDiskShare    ─▶ signer: evidence, policy, member ─▶ share of the state disk, for one TPM
 * ```
 * All checks come before the first signature: a refused machine leaves a request, an audit entry and a trace, nothing else.
 *
 * | directory | what |
 * |---|---|
 * | stream | one call of RequestAdmission: hello, challenge, events |
 * | machine | which machine it is: credential activation, known attestation keys, TPM clocks |
 * | admission | `Applicant` → `readApplicantRecords` → `decideJoin` (pure) → `Admissions` or `MembershipCommits` write it |
 * | requests | stored requests, traces and refusals, and the limits of what machines can cause to be written |
 * | tickets | certificates and facts of the cluster for an admitted machine |
 */
export { JoinError } from './errors.ts';
export { JoinService } from './join-service.ts';
export { whyStillRemoved } from './admission/applicant-records.ts';
export { isNodeName, requestedName } from './admission/decide-join.ts';
export { readTrace } from './requests/join-trace.ts';
