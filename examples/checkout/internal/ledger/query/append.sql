-- Append adds one effect.
insert into ledger (order_id, id, cents) values (@order, @id, @cents)
