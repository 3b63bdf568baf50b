/** Files in ARCHIVE_DIR that rows were written to before they were deleted. A file without a row here is not complete. */
export interface ArchiveFilesTable {
  chain_id: number;
  kind: string;
  first_seq: number;
  last_seq: number;
  name: string;
  rows: number;
  bytes: number;
  sha256: string;
  created_at_ms: number;
}
