drop table effects;
drop table ledger_version;
